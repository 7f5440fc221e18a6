#!/usr/bin/python3
"""web.py - a web application of Debian's Python: a page of a catalogue for every request.

    web.py PORT            its rows are its own
    web.py PORT redis      a Redis beside it, in the same replica, has them
    web.py PORT postgres   a PostgreSQL beside it has them

Threads share one interpreter lock, memory is collected now and then, and connections to the server
beside it come from a pool of four: what services have and generated applications do not.
"""

import glob
import html
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ROWS, SHOWN, POOL = 2000, 80, 4


def row(i):
    return {"name": f"article {i}", "price": i * 37 % 1009, "text": "& so on <" * 6}


class Own:
    """Rows in memory."""

    def __init__(self, _folder):
        self.rows = [json.dumps(row(i)) for i in range(ROWS)]

    def read(self, begin):
        return [json.loads(text) for text in self.rows[begin:begin + SHOWN]]


class Redis:
    """Rows in a list of Redis, asked in its own protocol over a Unix socket."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "redis")
        start("redis-server", "--port", "0", "--unixsocket", self.path, "--save", "",
              "--dir", folder, "--maxmemory", "32mb")
        until(lambda: os.path.exists(self.path))
        self.pool = queue.Queue()
        for _ in range(POOL):
            self.pool.put(self.connect())
        link = self.pool.get()
        for i in range(ROWS):
            self.ask(link, "RPUSH", "rows", json.dumps(row(i)))
        self.pool.put(link)

    def connect(self):
        import socket
        link = socket.socket(socket.AF_UNIX)
        link.connect(self.path)
        return link.makefile("rwb")

    @staticmethod
    def ask(link, *words):
        parts = [word.encode() for word in words]
        link.write(b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts))
        link.flush()
        head = link.readline()
        if head[:1] != b"*":
            return head
        return [link.read(int(link.readline()[1:]) + 2)[:-2] for _ in range(int(head[1:]))]

    def read(self, begin):
        link = self.pool.get()
        try:
            texts = self.ask(link, "LRANGE", "rows", str(begin), str(begin + SHOWN - 1))
        finally:
            self.pool.put(link)
        return [json.loads(text) for text in texts]


class Postgres:
    """Rows in a table, by a query that sorts."""

    def __init__(self, folder):
        import psycopg2
        programs = sorted(glob.glob("/usr/lib/postgresql/*/bin"))[-1]
        data = os.path.join(folder, "data")
        subprocess.run([f"{programs}/initdb", "-D", data, "-A", "trust", "-U", "shop", "--no-sync",
                        "--locale=C", "-E", "UTF8"], check=True, stdout=subprocess.DEVNULL)
        start(f"{programs}/postgres", "-D", data, "-k", folder, "-c", "listen_addresses=",
              "-c", "fsync=off", "-c", "shared_buffers=16MB", "-c", "autovacuum=off")
        where = f"host={folder} user=shop dbname=postgres"

        def there():
            try:
                self.pool = queue.Queue()
                self.pool.put(psycopg2.connect(where))
                return True
            except psycopg2.OperationalError:
                return False
        until(there)
        for _ in range(POOL - 1):
            self.pool.put(psycopg2.connect(where))
        link = self.pool.get()
        cursor = link.cursor()
        cursor.execute("create table rows (id int primary key, name text, price int, text text)")
        cursor.executemany("insert into rows values (%s, %s, %s, %s)",
                           [(i, *row(i).values()) for i in range(ROWS)])
        link.commit()
        for _ in range(POOL):
            link.autocommit = True
            self.pool.put(link)
            link = self.pool.get()
        self.pool.put(link)

    def read(self, begin):
        link = self.pool.get()
        try:
            cursor = link.cursor()
            cursor.execute("select name, price, text from rows where id >= %s and id < %s "
                           "order by price", (begin, begin + SHOWN))
            return [dict(zip(("name", "price", "text"), found)) for found in cursor.fetchall()]
        finally:
            self.pool.put(link)


children = []


def start(*words):
    children.append(subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))


def until(condition):
    end = time.monotonic() + 60
    while not condition():
        if time.monotonic() > end:
            sys.exit("web.py: the server beside it does not answer")
        time.sleep(0.05)


class Page(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    source, asked = None, 0

    def do_GET(self):
        body = b"" if self.path == "/readyz" else self.page()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

    def page(self):
        Page.asked += 1
        rows = self.source.read(Page.asked * 17 % (ROWS - SHOWN))
        return "".join(f"<tr><td>{html.escape(one['name'])}<td>{one['price']:.2f}"
                       f"<td>{html.escape(one['text'])}</tr>\n" for one in rows).encode()

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    daemon_threads, request_queue_size = True, 128


def main():
    folder = tempfile.mkdtemp()
    os.chmod(folder, 0o700)

    def end(*_):
        for child in children:
            child.terminate()
            child.wait()
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(0)
    signal.signal(signal.SIGTERM, end)
    kinds = {"own": Own, "redis": Redis, "postgres": Postgres}
    Page.source = kinds[sys.argv[2] if len(sys.argv) > 2 else "own"](folder)
    Server(("127.0.0.1", int(sys.argv[1])), Page).serve_forever()


if __name__ == "__main__":
    main()

// send.mjs WAY ADDRESS - one request of two services, sent by the OpenTelemetry SDK of JavaScript.
//
// WAY: grpc, http-protobuf, http-json, each also with "+gzip", or zipkin. Prints the trace id. Times
// are given, so that what arrives can be compared to the millisecond.
import { createRequire } from "node:module";

const require = createRequire(process.cwd() + "/"); // what npm brought is where we are run
const { SpanKind, SpanStatusCode, ROOT_CONTEXT, trace } = require("@opentelemetry/api");
const { resourceFromAttributes } = require("@opentelemetry/resources");
const { BasicTracerProvider, BatchSpanProcessor } = require("@opentelemetry/sdk-trace-base");

const [way, address] = process.argv.slice(2);
const [protocol, packed] = way.split("+");
const compression = packed === "gzip" ? "gzip" : "none";

function exporter() {
  switch (protocol) {
    case "grpc": {
      const { OTLPTraceExporter } = require("@opentelemetry/exporter-trace-otlp-grpc");
      return new OTLPTraceExporter({ url: `http://${address}`, compression });
    }
    case "http-protobuf": {
      const { OTLPTraceExporter } = require("@opentelemetry/exporter-trace-otlp-proto");
      return new OTLPTraceExporter({ url: `http://${address}/v1/traces`, compression });
    }
    case "http-json": {
      const { OTLPTraceExporter } = require("@opentelemetry/exporter-trace-otlp-http");
      return new OTLPTraceExporter({ url: `http://${address}/v1/traces`, compression });
    }
    case "zipkin": {
      const { ZipkinExporter } = require("@opentelemetry/exporter-zipkin");
      return new ZipkinExporter({ url: `http://${address}/api/v2/spans` });
    }
    default:
      throw new Error(`no such way: ${way}`);
  }
}

function provider(service) {
  return new BasicTracerProvider({
    resource: resourceFromAttributes({
      "service.name": service,
      "service.instance.id": `${service}-1`,
    }),
    spanProcessors: [new BatchSpanProcessor(exporter())],
  });
}

const zero = Date.now() - 10_000;
const at = (ms) => [Math.floor((zero + ms) / 1000), ((zero + ms) % 1000) * 1e6];
const providers = { front: provider("front"), orders: provider("orders") };
const tracer = (service) => providers[service].getTracer("test");
const below = (span) => trace.setSpan(ROOT_CONTEXT, span);

const root = tracer("front").startSpan("GET /cart",
  { kind: SpanKind.SERVER, startTime: at(0), attributes: { "http.route": "/cart" } }, ROOT_CONTEXT);
const client = tracer("front").startSpan("GET orders",
  { kind: SpanKind.CLIENT, startTime: at(10), attributes: { "peer.service": "orders", n: 3 } },
  below(root));
const server = tracer("orders").startSpan("GET /orders",
  { kind: SpanKind.SERVER, startTime: at(25) }, below(client));
server.setStatus({ code: SpanStatusCode.ERROR, message: "no rows" });
server.addEvent("retry", at(30));
server.end(at(85));
client.end(at(90));
root.end(at(100));
for (const one of Object.values(providers)) await one.shutdown();
console.log(root.spanContext().traceId);

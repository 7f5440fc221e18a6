/* pretrained_shelf.c - the models of a process, each read once. */
#include "policy/pretrained.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* What a book can be. */
enum kind { MODEL, LIBRARY, PEERS };
static const char *const shipped[] = {AW_MODEL_SHELF_FILE, AW_MODEL_SHELF_LIBRARY,
                                      AW_MODEL_SHELF_PEERS};

struct book {
    char path[AW_MODEL_SHELF_PATH_MAX];
    struct aw_pretrained *model; /* by its kind one of the three; empty: refused, for .. */
    struct aw_library library;
    struct aw_peers_model peers;
    enum kind kind;
    enum aw_err err; /* .. this reason */
    struct aw_diag diag;
};

struct aw_model_shelf {
    uint32_t folder_count, count;
    char folder[AW_MODEL_SHELF_FOLDERS_MAX][AW_MODEL_SHELF_PATH_MAX];
    struct book book[AW_MODEL_SHELF_MODELS_MAX];
    const struct aw_alloc *alloc;
};

enum aw_err aw_model_shelf_new(const char *const *folders, size_t count,
                               const struct aw_alloc *alloc, struct aw_model_shelf **ret_shelf,
                               struct aw_diag *diag)
{
    struct aw_model_shelf *shelf = aw_alloc_new(alloc, 1, sizeof *shelf);
    if (!shelf)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for models");
    shelf->alloc = alloc;
    enum aw_err err = AW_OK;
    for (size_t i = 0; !err && i < count; i++) {
        if (!folders[i] || !folders[i][0])
            continue;
        if (shelf->folder_count == AW_MODEL_SHELF_FOLDERS_MAX ||
            strlen(folders[i]) + sizeof "/" AW_MODEL_SHELF_FILE > AW_MODEL_SHELF_PATH_MAX)
            err = aw_fail(diag, AW_ERR_LIMIT, "too many folders of models, or too long a path: %s",
                          folders[i]);
        else
            snprintf(shelf->folder[shelf->folder_count++], AW_MODEL_SHELF_PATH_MAX, "%s",
                     folders[i]);
    }
    if (err)
        aw_model_shelf_free(shelf);
    else
        *ret_shelf = shelf;
    return err;
}

void aw_model_shelf_free(struct aw_model_shelf *shelf)
{
    if (!shelf)
        return;
    for (uint32_t i = 0; i < shelf->count; i++) {
        aw_pretrained_close(shelf->book[i].model);
        aw_library_deinit(&shelf->book[i].library);
    }
    aw_alloc_free(shelf->alloc, shelf);
}

/* The first file of that name; where one is there but cannot be read, opening it says why. */
static enum aw_err shipped_find(const struct aw_model_shelf *shelf, const char *file, char *buf,
                                size_t size, struct aw_diag *diag)
{
    for (uint32_t i = 0; i < shelf->folder_count; i++) {
        const int len = snprintf(buf, size, "%s/%s", shelf->folder[i], file);
        AW_ASSERT(len > 0 && (size_t)len < size); /* new has measured them */
        if (access(buf, F_OK) == 0)
            return AW_OK;
    }
    return aw_fail(diag, AW_ERR_NOTFOUND, "no %s in %s%s%s", file,
                   shelf->folder_count ? shelf->folder[0] : "any folder",
                   shelf->folder_count > 1 ? ", nor in " : "",
                   shelf->folder_count > 1 ? shelf->folder[1] : "");
}

static enum aw_err book_read(struct book *book, const struct aw_alloc *alloc)
{
    switch (book->kind) {
    case LIBRARY:
        return aw_library_open(book->path, alloc, &book->library, &book->diag);
    case PEERS:
        return aw_peers_model_open(book->path, alloc, &book->peers, &book->diag);
    default:
        return aw_pretrained_open(book->path, alloc, &book->model, &book->diag);
    }
}

/* The book of `what`, read by the first who asks; `kind`: what it is to be. NULL without an error:
 * none is wanted. */
static enum aw_err book_get(struct aw_model_shelf *shelf, const char *what, enum kind kind,
                            struct book **ret_book, struct aw_diag *diag)
{
    char path[AW_MODEL_SHELF_PATH_MAX];
    *ret_book = NULL;
    if (strcmp(what, AW_MODEL_SHELF_NONE) == 0)
        return AW_OK;
    if (strcmp(what, AW_MODEL_SHELF_SHIPPED) == 0) {
        const enum aw_err err = shipped_find(shelf, shipped[kind], path, sizeof path, diag);
        if (err)
            return err;
    } else if (strlen(what) >= sizeof path) {
        return aw_fail(diag, AW_ERR_LIMIT, "the path of a model is longer than %zu bytes",
                       sizeof path - 1);
    } else {
        snprintf(path, sizeof path, "%s", what);
    }
    struct book *book = NULL;
    for (uint32_t i = 0; i < shelf->count && !book; i++)
        if (shelf->book[i].kind == kind && strcmp(shelf->book[i].path, path) == 0)
            book = &shelf->book[i];
    if (!book) {
        if (shelf->count == AW_MODEL_SHELF_MODELS_MAX)
            return aw_fail(diag, AW_ERR_LIMIT, "more than %u different models",
                           AW_MODEL_SHELF_MODELS_MAX);
        book = &shelf->book[shelf->count++];
        book->kind = kind;
        snprintf(book->path, sizeof book->path, "%s", path);
        book->err = book_read(book, shelf->alloc);
    }
    if (book->err && diag)
        *diag = book->diag;
    *ret_book = book;
    return book->err;
}

enum aw_err aw_model_shelf_get(struct aw_model_shelf *shelf, const char *what,
                               const struct aw_pretrained **ret_model, struct aw_diag *diag)
{
    struct book *book;
    const enum aw_err err = book_get(shelf, what, MODEL, &book, diag);
    if (!err)
        *ret_model = book ? book->model : NULL;
    return err;
}

enum aw_err aw_model_shelf_library(struct aw_model_shelf *shelf, const char *what,
                                   const struct aw_library **ret_library, struct aw_diag *diag)
{
    struct book *book;
    const enum aw_err err = book_get(shelf, what, LIBRARY, &book, diag);
    if (!err)
        *ret_library = book ? &book->library : NULL;
    return err;
}

enum aw_err aw_model_shelf_peers(struct aw_model_shelf *shelf, const char *what,
                                 const struct aw_peers_model **ret_peers, struct aw_diag *diag)
{
    struct book *book;
    const enum aw_err err = book_get(shelf, what, PEERS, &book, diag);
    if (!err)
        *ret_peers = book ? &book->peers : NULL;
    return err;
}

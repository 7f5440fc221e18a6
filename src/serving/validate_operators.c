/* validate_operators.c - times of operators and of collectives, and of the phases of an LLM. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "serving/gpu.h"
#include "serving/table.h"
#include "serving/validate.h"

#define MS             1e-3
#define BYTES_HALF     2.0   /* of a number in half precision */
#define NEIGHBOURS_MAX 2000u /* of what is left over */
#define NEIGHBOUR_NEAR 0.01  /* of logarithms squared: closer ones count alike */
#define AT             4u
#define CONTEXT_NEAR   32.0  /* contexts below it are alike */
#define TOKENS_NEAR    0.1   /* of the logarithm: products whose rests are alike */
#define SHAPE_NEAR     0.5   /* of logarithms squared */
#define PRODUCT_DOUBT  0.5   /* products that fit the roofline, beside them */
#define TRAIN_MAX      1200u /* products that a roofline is fitted to */

static double cell(const struct aw_serving_table *table, uint32_t row, const char *column)
{
    return aw_serving_table_real(table, row, aw_serving_table_column(table, column));
}

static double else_(double value, double missing)
{
    return isfinite(value) ? value : missing;
}

/* The column of an operator's time: the median, or the mean where there is none; NULL: neither. */
static const char *time_of(const struct aw_serving_table *table, const char *operator, char * into,
                           size_t size)
{
    static const char *const kinds[] = {"median", "mean"};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        snprintf(into, size, "time_stats.%s.%s", operator, kinds[k]);
        if (aw_serving_table_column(table, into) != AW_SERVING_TABLE_NONE)
            return into;
    }
    return NULL;
}

/* --- matrix products -------------------------------------------------------------------------- */

static const char *const products[] = {"attn_pre_proj", "attn_post_proj", "mlp_up_proj",
                                       "mlp_down_proj"};
#define PRODUCTS ((uint32_t)(sizeof products / sizeof *products))

/* M x K times K x N of one worker. */
static void product_shape(const struct aw_serving_table *table, uint32_t r, uint32_t op, double *K,
                          double *N)
{
    const double tp = else_(cell(table, r, "num_tensor_parallel_workers"), 1),
                 width = cell(table, r, "n_embd"), wide = cell(table, r, "n_expanded_embd"),
                 heads = cell(table, r, "n_head"), kv = else_(cell(table, r, "n_kv_head"), heads);
    const char *gated =
        aw_serving_table_text(table, r, aw_serving_table_column(table, "use_gated_mlp"));
    const double up =
        !strcmp(gated, "True") || !strcmp(gated, "true") || !strcmp(gated, "1") ? 2 : 1;
    switch (op) {
    case 0: /* with fewer key heads than workers, each has a copy */
        *K = width;
        *N = width / heads * (heads / tp + 2 * fmax(kv / tp, 1));
        break;
    case 1:
        *K = width / tp;
        *N = width;
        break;
    case 2:
        *K = width;
        *N = up * wide / tp;
        break;
    default:
        *K = wide / tp;
        *N = width;
    }
}

struct product {
    struct aw_gpu_product is;
    uint32_t shape; /* operator and workers */
    double at[3];   /* tokens, K, N, in logarithms */
    double rest;    /* of a law that was fitted without this shape, in logarithms */
};

static uint32_t products_take(const struct aw_serving_table *table, struct product *ret)
{
    uint32_t n = 0;
    for (uint32_t op = 0; op < PRODUCTS; op++) {
        char name[64];
        if (!time_of(table, products[op], name, sizeof name))
            continue;
        for (uint32_t r = 0; r < table->rows; r++) {
            const double seconds = MS * cell(table, r, name), M = cell(table, r, "num_tokens");
            double K, N;
            product_shape(table, r, op, &K, &N);
            if (!(seconds > 0) || !(M > 0) || !(K > 0) || !(N > 0))
                continue;
            ret[n].is = (struct aw_gpu_product){.bytes = BYTES_HALF * (M * K + K * N + M * N),
                                                .flops = 2 * M * K * N,
                                                .seconds = seconds};
            ret[n].at[0] = log(M);
            ret[n].at[1] = log(K);
            ret[n].at[2] = log(N);
            ret[n++].shape = op | (uint32_t)else_(cell(table, r, "num_tensor_parallel_workers"), 1)
                                      << 4;
        }
    }
    return n;
}

/* What the roofline leaves over of products with as many tokens: a tile that is not filled is not
 * filled in any of them. */
static double product_rest(const struct product *const *seen, uint32_t count,
                           const struct product *own)
{
    double sum = 0, total = PRODUCT_DOUBT;
    for (uint32_t i = 0; i < count; i++) {
        const double M = (seen[i]->at[0] - own->at[0]) / TOKENS_NEAR,
                     K = seen[i]->at[1] - own->at[1], N = seen[i]->at[2] - own->at[2],
                     w = exp(-M * M - (K * K + N * N) / SHAPE_NEAR);
        sum += w * seen[i]->rest;
        total += w;
    }
    return sum / total;
}

static void shape_try(struct aw_validate *validate, struct product *all, uint32_t n, uint32_t out,
                      struct aw_gpu_product *is, struct product **seen)
{
    const uint32_t step = n / TRAIN_MAX + 1;
    uint32_t count = 0;
    struct aw_gpu_roof roof;
    for (uint32_t k = 0; k < n && count < TRAIN_MAX; k += step) {
        if (all[k].shape == out)
            continue;
        is[count] = all[k].is;
        seen[count++] = &all[k];
    }
    if (count < 8)
        return;
    aw_gpu_roof_fit(is, count, &roof);
    for (uint32_t k = 0; k < count; k++)
        seen[k]->rest = log(seen[k]->is.seconds /
                            aw_gpu_roof_at(&roof, seen[k]->is.bytes, seen[k]->is.flops, 1));
    for (uint32_t k = 0; k < n; k++)
        if (all[k].shape == out)
            aw__validate_error(
                validate, "gemm",
                aw_gpu_roof_at(&roof, all[k].is.bytes, all[k].is.flops, 1) *
                    exp(product_rest((const struct product *const *)seen, count, &all[k])),
                all[k].is.seconds);
}

static enum aw_err products_try(struct aw_validate *validate, const struct aw_serving_table *table,
                                struct aw_diag *diag)
{
    struct product *all = aw_alloc_new(NULL, (size_t)PRODUCTS * table->rows, sizeof *all);
    struct product **seen = aw_alloc_new(NULL, TRAIN_MAX, sizeof *seen);
    struct aw_gpu_product *is = aw_alloc_new(NULL, TRAIN_MAX, sizeof *is);
    enum aw_err err =
        all && seen && is ? AW_OK : aw_fail(diag, AW_ERR_NOMEM, "no memory for products");
    const uint32_t n = err ? 0 : products_take(table, all);
    for (uint32_t i = 0; i < n; i++) {
        bool first = true;
        for (uint32_t k = 0; k < i && first; k++)
            first = all[k].shape != all[i].shape;
        if (first)
            shape_try(validate, all, n, all[i].shape, is, seen);
    }
    aw_alloc_free(NULL, all);
    aw_alloc_free(NULL, (void *)seen);
    aw_alloc_free(NULL, is);
    return err;
}

/* --- linear laws ------------------------------------------------------------------------------ */

/* Cases of a linear law; `part` says which half they belong to or, of leave-one-out, which case. */
struct cases {
    uint32_t n, terms;
    double *u, *y, *weight; /* [n][terms], [n], [n] */
    double (*at)[AT];       /* [n]: where a case is, in logarithms */
    double *guess;          /* [n]: what cases_predict says; NAN: too few others */
    uint32_t *part;
};

static bool cases_init(struct cases *cases, uint32_t n, uint32_t terms)
{
    *cases = (struct cases){.terms = terms};
    cases->u = aw_alloc_new(NULL, (size_t)n * terms, sizeof *cases->u);
    cases->y = aw_alloc_new(NULL, n, sizeof *cases->y);
    cases->weight = aw_alloc_new(NULL, n, sizeof *cases->weight);
    cases->at = aw_alloc_new(NULL, n, sizeof *cases->at);
    cases->guess = aw_alloc_new(NULL, n, sizeof *cases->guess);
    cases->part = aw_alloc_new(NULL, n, sizeof *cases->part);
    return cases->u && cases->y && cases->weight && cases->at && cases->guess && cases->part;
}

static void cases_deinit(struct cases *cases)
{
    aw_alloc_free(NULL, cases->u);
    aw_alloc_free(NULL, cases->y);
    aw_alloc_free(NULL, cases->weight);
    aw_alloc_free(NULL, cases->at);
    aw_alloc_free(NULL, cases->guess);
    aw_alloc_free(NULL, cases->part);
}

static void place(struct cases *cases, double a, double b, double c, double d)
{
    cases->at[cases->n][0] = log(a);
    cases->at[cases->n][1] = log(b);
    cases->at[cases->n][2] = log(c);
    cases->at[cases->n][3] = log(d);
}

/* Which half a case belongs to. Sizes are multiples of 8, 16 or 64, so that parity says nothing. */
static uint32_t half_of(const double *size, uint32_t n)
{
    uint64_t hash = aw_hash_bytes(AW_HASH_BEGIN, size, n * sizeof *size);
    hash ^= hash >> 29; /* FNV's bits are weak at both ends */
    hash *= UINT64_C(0xbf58476d1ce4e5b9);
    return hash >> 63;
}

static double law_at(const double *beta, const double *u, uint32_t terms)
{
    double y = 0;
    for (uint32_t k = 0; k < terms; k++)
        y += beta[k] * u[k];
    return y;
}

/* What a law leaves over is interpolated from the cases around: the mean ratio of measured to
 * predicted, the nearest by far the most. */
static double left_over(const struct cases *seen, uint32_t count, const double *at)
{
    double sum = 0, total = 0;
    const uint32_t step = count / NEIGHBOURS_MAX + 1;
    for (uint32_t i = 0; i < count; i += step) {
        double d = 0;
        for (uint32_t k = 0; k < AT; k++)
            d += (seen->at[i][k] - at[k]) * (seen->at[i][k] - at[k]);
        const double w = 1 / ((d + NEIGHBOUR_NEAR) * (d + NEIGHBOUR_NEAR));
        sum += w * seen->weight[i];
        total += w;
    }
    return total > 0 ? sum / total : 1;
}

/* Each part is predicted from the others, which are packed into scratch. */
static void cases_predict(const struct cases *cases, const struct cases *scratch)
{
    for (uint32_t i = 0; i < cases->n; i++) {
        bool first = true;
        for (uint32_t k = 0; k < i && first; k++)
            first = cases->part[k] != cases->part[i];
        if (!first)
            continue;
        double beta[AW_GPU_TERMS_MAX];
        uint32_t count = 0;
        for (uint32_t k = 0; k < cases->n; k++) {
            if (cases->part[k] == cases->part[i])
                continue;
            memcpy(scratch->u + (size_t)count * cases->terms, cases->u + (size_t)k * cases->terms,
                   cases->terms * sizeof *cases->u);
            memcpy(scratch->at[count], cases->at[k], sizeof scratch->at[count]);
            scratch->y[count++] = cases->y[k];
        }
        const bool enough = count > cases->terms;
        if (enough)
            aw_gpu_robust_fit(scratch->u, scratch->y, scratch->weight, count, cases->terms, beta);
        for (uint32_t k = 0; k < count && enough; k++)
            scratch->weight[k] =
                scratch->y[k] / law_at(beta, scratch->u + (size_t)k * cases->terms, cases->terms);
        for (uint32_t k = 0; k < cases->n; k++)
            if (cases->part[k] == cases->part[i])
                cases->guess[k] =
                    enough ? left_over(scratch, count, cases->at[k]) *
                                 law_at(beta, cases->u + (size_t)k * cases->terms, cases->terms)
                           : NAN;
    }
}

static void cases_try(struct aw_validate *validate, const char *what, const struct cases *cases,
                      const struct cases *scratch)
{
    cases_predict(cases, scratch);
    for (uint32_t i = 0; i < cases->n; i++)
        aw__validate_error(validate, what, cases->guess[i], cases->y[i]);
}

static void elementwise_try(struct aw_validate *validate, const struct aw_serving_table *table,
                            struct cases *cases, const struct cases *scratch)
{
    static const char *const names[] = {"input_layernorm", "attn_rope", "post_attention_layernorm",
                                        "mlp_act", "add"};
    for (size_t op = 0; op < sizeof names / sizeof *names; op++) {
        char name[64];
        if (!time_of(table, names[op], name, sizeof name))
            continue;
        cases->n = 0;
        for (uint32_t r = 0; r < table->rows; r++) {
            const double y = MS * cell(table, r, name), tokens = cell(table, r, "num_tokens"),
                         tp = else_(cell(table, r, "num_tensor_parallel_workers"), 1);
            if (!(y > 0) || !(tokens > 0) || !(tp > 0))
                continue;
            double *u = cases->u + 3 * (size_t)cases->n;
            u[0] = 1;
            u[1] = tokens;
            u[2] = tokens / tp;
            place(cases, tokens, tp, 1, 1);
            cases->part[cases->n] = half_of(&tokens, 1);
            cases->y[cases->n++] = y;
        }
        cases_try(validate, "elementwise", cases, scratch);
    }
}

static void attention_try(struct aw_validate *validate, const struct aw_serving_table *table,
                          bool prefill, struct cases *cases, const struct cases *scratch)
{
    char name[64];
    cases->n = 0;
    if (!time_of(table, prefill ? "attn_prefill" : "attn_decode", name, sizeof name))
        return;
    for (uint32_t r = 0; r < table->rows; r++) {
        const double B = cell(table, r, "batch_size"), kv = cell(table, r, "kv_cache_size"),
                     chunk = else_(cell(table, r, "prefill_chunk_size"), 0),
                     tp = else_(cell(table, r, "num_tensor_parallel_workers"), 1),
                     y = MS * cell(table, r, name);
        if (!(y > 0) || !(B > 0) || !(kv >= 0) || !(tp > 0) || prefill != (chunk > 0))
            continue;
        double *u = cases->u + 4 * (size_t)cases->n;
        u[0] = 1;
        u[1] = (prefill ? chunk : B) / tp;
        u[2] = (prefill ? chunk * kv : B * kv) / tp;
        u[3] = (prefill ? chunk * chunk : kv) / tp;
        place(cases, B, kv + CONTEXT_NEAR, chunk + 1, tp);
        /* sizes are multiples of 16 or 32: their hash says who is held out */
        const double sizes[] = {B, kv, chunk};
        cases->part[cases->n] = half_of(sizes, 3);
        cases->y[cases->n++] = y;
    }
    cases_try(validate, "attention", cases, scratch);
}

static void network_try(struct aw_validate *validate, const struct aw_serving_table *table,
                        const char *time, struct cases *cases, const struct cases *scratch)
{
    double done[64];
    uint32_t kinds = 0;
    for (uint32_t first = 0; first < table->rows && kinds < 64; first++) {
        const double kind = cell(table, first, "num_workers") * 1000 +
                            else_(cell(table, first, "devices_per_node"), 0);
        bool known = !isfinite(kind);
        for (uint32_t k = 0; k < kinds; k++)
            known |= done[k] == kind;
        if (known)
            continue;
        done[kinds++] = kind;
        cases->n = 0;
        for (uint32_t r = 0; r < table->rows; r++) {
            const double y = MS * cell(table, r, time), size = cell(table, r, "size");
            if (cell(table, r, "num_workers") * 1000 +
                        else_(cell(table, r, "devices_per_node"), 0) !=
                    kind ||
                !(y > 0) || !(size > 0))
                continue;
            double *u = cases->u + 3 * (size_t)cases->n;
            u[0] = 1;
            u[1] = size;
            u[2] = sqrt(size);
            place(cases, size, 1, 1, 1);
            cases->part[cases->n] = r % 2;
            cases->y[cases->n++] = y;
        }
        cases_try(validate, "network", cases, scratch);
    }
}

enum aw_err aw__validate_operators(struct aw_validate *validate, const char *path,
                                   const struct aw_serving_table *table, bool *ret_mine,
                                   struct aw_diag *diag)
{
    static const char *const mlp[] = {"n_embd", "n_expanded_embd", "num_tokens", NULL};
    static const char *const attention[] = {"batch_size", "kv_cache_size", NULL};
    static const char *const network[] = {"num_workers", "size", NULL};
    char name[64] = "", reduce[64];
    bool is_mlp = false, is_attention = false;
    for (uint32_t op = 0; op < PRODUCTS && aw_serving_table_has(table, mlp) && !is_mlp; op++)
        is_mlp = time_of(table, products[op], name, sizeof name) != NULL;
    if (!is_mlp && aw_serving_table_has(table, attention))
        is_attention = time_of(table, "attn_decode", name, sizeof name) ||
                       time_of(table, "attn_prefill", name, sizeof name);
    const bool is_reduce = !is_mlp && !is_attention && aw_serving_table_has(table, network) &&
                           (time_of(table, "all_reduce", reduce, sizeof reduce) ||
                            time_of(table, "send_recv", reduce, sizeof reduce) ||
                            time_of(table, "all_gather", reduce, sizeof reduce));
    struct cases cases = {0}, scratch = {0};
    *ret_mine = is_mlp || is_attention || is_reduce;
    if (!*ret_mine)
        return AW_OK;
    enum aw_err err = AW_OK;
    if (!cases_init(&cases, table->rows, 4) || !cases_init(&scratch, table->rows, 4))
        err = aw_fail(diag, AW_ERR_NOMEM, "no memory for %s", path);
    cases.terms = is_attention ? 4 : 3;
    if (!err && is_mlp) {
        err = products_try(validate, table, diag);
        if (!err)
            elementwise_try(validate, table, &cases, &scratch);
    } else if (!err && is_attention) {
        attention_try(validate, table, false, &cases, &scratch);
        attention_try(validate, table, true, &cases, &scratch);
    } else if (!err) {
        network_try(validate, table, reduce, &cases, &scratch);
    }
    cases_deinit(&cases);
    cases_deinit(&scratch);
    return err;
}

/* --- phases ----------------------------------------------------------------------------------- */

/* One row of a file of phases. */
struct phase {
    uint64_t machine, config; /* model, hardware, workers; prompt, batch (and answer) */
    double prompt, batch, answer, begin, y, guess; /* begin: of the prompts */
};

static int by_machine(const void *left, const void *right)
{
    const struct phase *a = left, *b = right;
    return (a->machine > b->machine) - (a->machine < b->machine);
}

static uint64_t machine_of(const struct aw_serving_table *table, uint32_t row)
{
    static const char *const keys[] = {"model", "hardware", "tensor_parallel"};
    uint64_t hash = AW_HASH_BEGIN;
    for (uint32_t k = 0; k < 3; k++)
        hash = aw_hash_byte(
            aw_hash_text(
                hash, aw_serving_table_text(table, row, aw_serving_table_column(table, keys[k]))),
            0);
    return hash;
}

/* A batch whose prompts took less than half as long as those of a smaller batch of the same
 * prompts: that run went wrong, and neither of its phases counts. */
static bool broken(const struct phase *phases, uint32_t n, const struct phase *own)
{
    for (uint32_t i = 0; i < n; i++)
        if (phases[i].batch < own->batch && phases[i].prompt == own->prompt &&
            2 * own->begin < phases[i].begin && phases[i].machine == own->machine)
            return true;
    return false;
}

static uint32_t phases_take(const struct aw_serving_table *table, bool prefill, struct phase *ret)
{
    uint32_t all = 0, n = 0;
    for (uint32_t r = 0; r < table->rows; r++) {
        struct phase *phase = &ret[all];
        *phase = (struct phase){.machine = machine_of(table, r),
                                .prompt = cell(table, r, "prompt_size"),
                                .batch = cell(table, r, "batch_size"),
                                .answer = prefill ? 1 : cell(table, r, "token_size"),
                                .begin = cell(table, r, "prompt_time"),
                                .y = cell(table, r, prefill ? "prompt_time" : "token_time")};
        const double config = phase->prompt * 131 + phase->batch * 7 + phase->answer * 31013;
        if (phase->y > 0 && phase->batch > 0 && phase->prompt > 0 && phase->answer > 0 &&
            config < 0x1p63) { /* no NaN, and nothing that a whole number cannot hold */
            phase->config = (uint64_t)config;
            all++;
        }
    }
    for (uint32_t i = 0; i < all; i++) /* later ones are still there to compare with */
        ret[i].y = broken(ret, all, &ret[i]) ? NAN : ret[i].y;
    for (uint32_t i = 0; i < all; i++)
        if (isfinite(ret[i].y))
            ret[n++] = ret[i];
    qsort(ret, n, sizeof *ret, by_machine);
    return n;
}

/* What other machines leave over of the same configuration: a batch that costs one of them more
 * than its law costs the others more, too. Each counts once, and one that fits its law. */
static double machines_alike(const struct phase *phases, uint32_t n, const struct phase *own)
{
    double sum = 0, one = 0;
    uint32_t machines = 1, rows = 0;
    for (uint32_t i = 0; i <= n; i++) {
        if (rows && (i == n || phases[i].machine != phases[i - 1].machine)) {
            sum += one / rows;
            machines++;
            one = rows = 0;
        }
        if (i < n && phases[i].machine != own->machine && phases[i].config == own->config &&
            isfinite(phases[i].guess)) {
            one += log(phases[i].y / phases[i].guess);
            rows++;
        }
    }
    return exp(sum / machines);
}

static void phases_try(struct aw_validate *validate, const struct aw_serving_table *table,
                       bool prefill, struct phase *phases, struct cases *cases,
                       const struct cases *scratch)
{
    const uint32_t n = phases_take(table, prefill, phases);
    for (uint32_t first = 0, end; first < n; first = end) {
        cases->n = 0;
        for (end = first; end < n && phases[end].machine == phases[first].machine; end++) {
            const double prompt = phases[end].prompt, B = phases[end].batch,
                         context = prompt + phases[end].answer / 2;
            double *u = cases->u + 4 * (size_t)cases->n;
            u[0] = 1;
            u[1] = prefill ? B * prompt : B;
            u[2] = prefill ? B * prompt * prompt : B * context;
            u[3] = prefill ? B * prompt * B * prompt : B * B;
            if (prefill) /* what matters most is how many tokens there are */
                place(cases, B * prompt, sqrt(B), 1, 1);
            else
                place(cases, B, prompt, phases[end].answer, 1);
            cases->part[cases->n] = (uint32_t)phases[end].config;
            cases->y[cases->n++] = phases[end].y;
        }
        cases_predict(cases, scratch);
        for (uint32_t i = 0; i < cases->n; i++)
            phases[first + i].guess = cases->guess[i];
    }
    for (uint32_t i = 0; i < n; i++)
        aw__validate_error(validate, prefill ? "prefill" : "decode",
                           phases[i].guess * machines_alike(phases, n, &phases[i]), phases[i].y);
}

enum aw_err aw__validate_phases(struct aw_validate *validate, const char *path,
                                const struct aw_serving_table *table, bool *ret_mine,
                                struct aw_diag *diag)
{
    static const char *const names[] = {"prompt_size", "batch_size", NULL};
    static const char *const first[] = {"prompt_time", NULL}, *const then[] = {"token_time",
                                                                               "token_size", NULL};
    struct cases cases = {0}, scratch = {0};
    const bool begins = aw_serving_table_has(table, first),
               goes_on = aw_serving_table_has(table, then);
    if (!(*ret_mine = aw_serving_table_has(table, names) && (begins || goes_on)))
        return AW_OK;
    struct phase *phases = aw_alloc_new(NULL, table->rows, sizeof *phases);
    enum aw_err err = AW_OK;
    if (!phases || !cases_init(&cases, table->rows, 4) || !cases_init(&scratch, table->rows, 4))
        err = aw_fail(diag, AW_ERR_NOMEM, "no memory for %s", path);
    for (int prefill = 0; !err && prefill < 2; prefill++)
        if (prefill ? begins : goes_on)
            phases_try(validate, table, prefill, phases, &cases, &scratch);
    aw_alloc_free(NULL, phases);
    cases_deinit(&cases);
    cases_deinit(&scratch);
    return err;
}

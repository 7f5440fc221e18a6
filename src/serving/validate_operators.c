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
#define TRAIN_MAX      1200u /* products that a roofline is fitted to */

static double cell(const struct aw_serving_table *table, uint32_t row, const char *column)
{
    return aw_serving_table_real(table, row, aw_serving_table_column(table, column));
}

/* --- matrix products -------------------------------------------------------------------------- */

static const char *const products[] = {"attn_pre_proj", "attn_post_proj", "mlp_up_proj",
                                       "mlp_down_proj"};
#define PRODUCTS ((uint32_t)(sizeof products / sizeof *products))

/* M x K times K x N of one worker. */
static void product_shape(const struct aw_serving_table *table, uint32_t r, uint32_t op, double *K,
                          double *N)
{
    const double tp = cell(table, r, "num_tensor_parallel_workers"),
                 width = cell(table, r, "n_embd"), wide = cell(table, r, "n_expanded_embd"),
                 heads = cell(table, r, "n_head"), kv = cell(table, r, "n_kv_head");
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
};

static uint32_t products_take(const struct aw_serving_table *table, struct product *ret)
{
    uint32_t n = 0;
    for (uint32_t op = 0; op < PRODUCTS; op++) {
        char name[64];
        snprintf(name, sizeof name, "time_stats.%s.median", products[op]);
        for (uint32_t r = 0; r < table->rows; r++) {
            const double seconds = MS * cell(table, r, name), M = cell(table, r, "num_tokens");
            double K, N;
            product_shape(table, r, op, &K, &N);
            if (!(seconds > 0) || !(M > 0) || !(K > 0) || !(N > 0))
                continue;
            ret[n].is = (struct aw_gpu_product){.bytes = BYTES_HALF * (M * K + K * N + M * N),
                                                .flops = 2 * M * K * N,
                                                .seconds = seconds};
            ret[n++].shape = op | (uint32_t)cell(table, r, "num_tensor_parallel_workers") << 4;
        }
    }
    return n;
}

static enum aw_err products_try(struct aw_validate *validate, const struct aw_serving_table *table,
                                struct aw_diag *diag)
{
    struct product *all = aw_alloc_new(NULL, (size_t)PRODUCTS * table->rows, sizeof *all);
    struct aw_gpu_product *seen = aw_alloc_new(NULL, TRAIN_MAX, sizeof *seen);
    enum aw_err err = all && seen ? AW_OK : aw_fail(diag, AW_ERR_NOMEM, "no memory for products");
    const uint32_t n = err ? 0 : products_take(table, all);
    for (uint32_t i = 0; i < n; i++) {
        bool first = true;
        for (uint32_t k = 0; k < i && first; k++)
            first = all[k].shape != all[i].shape;
        if (!first)
            continue;
        const uint32_t out = all[i].shape, step = n / TRAIN_MAX + 1;
        uint32_t count = 0;
        for (uint32_t k = 0; k < n && count < TRAIN_MAX; k += step)
            if (all[k].shape != out)
                seen[count++] = all[k].is;
        if (count < 8)
            continue;
        struct aw_gpu_roof roof;
        aw_gpu_roof_fit(seen, count, &roof);
        for (uint32_t k = 0; k < n; k++)
            if (all[k].shape == out)
                aw__validate_error(validate, "gemm",
                                   aw_gpu_roof_at(&roof, all[k].is.bytes, all[k].is.flops, 1),
                                   all[k].is.seconds);
    }
    aw_alloc_free(NULL, all);
    aw_alloc_free(NULL, seen);
    return err;
}

/* --- linear laws ------------------------------------------------------------------------------ */

/* Cases of a linear law; `part` says which half they belong to or, of leave-one-out, which case. */
struct cases {
    uint32_t n, terms;
    double *u, *y, *weight; /* [n][terms], [n], [n] */
    double (*at)[3];        /* [n]: where a case is, in logarithms */
    uint32_t *part;
};

static bool cases_init(struct cases *cases, uint32_t n, uint32_t terms)
{
    *cases = (struct cases){.terms = terms};
    cases->u = aw_alloc_new(NULL, (size_t)n * terms, sizeof *cases->u);
    cases->y = aw_alloc_new(NULL, n, sizeof *cases->y);
    cases->weight = aw_alloc_new(NULL, n, sizeof *cases->weight);
    cases->at = aw_alloc_new(NULL, n, sizeof *cases->at);
    cases->part = aw_alloc_new(NULL, n, sizeof *cases->part);
    return cases->u && cases->y && cases->weight && cases->at && cases->part;
}

static void cases_deinit(struct cases *cases)
{
    aw_alloc_free(NULL, cases->u);
    aw_alloc_free(NULL, cases->y);
    aw_alloc_free(NULL, cases->weight);
    aw_alloc_free(NULL, cases->at);
    aw_alloc_free(NULL, cases->part);
}

static void place(struct cases *cases, double a, double b, double c)
{
    cases->at[cases->n][0] = log(a);
    cases->at[cases->n][1] = log(b);
    cases->at[cases->n][2] = log(c);
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
        for (uint32_t k = 0; k < 3; k++)
            d += (seen->at[i][k] - at[k]) * (seen->at[i][k] - at[k]);
        const double w = 1 / ((d + NEIGHBOUR_NEAR) * (d + NEIGHBOUR_NEAR));
        sum += w * seen->weight[i];
        total += w;
    }
    return total > 0 ? sum / total : 1;
}

/* Each part is predicted from the others. `u` and `y` of the others are packed into scratch. */
static void cases_try(struct aw_validate *validate, const char *what, const struct cases *cases,
                      const struct cases *scratch)
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
        if (count <= cases->terms)
            continue;
        aw_gpu_robust_fit(scratch->u, scratch->y, scratch->weight, count, cases->terms, beta);
        for (uint32_t k = 0; k < count; k++)
            scratch->weight[k] =
                scratch->y[k] / law_at(beta, scratch->u + (size_t)k * cases->terms, cases->terms);
        for (uint32_t k = 0; k < cases->n; k++)
            if (cases->part[k] == cases->part[i])
                aw__validate_error(
                    validate, what,
                    left_over(scratch, count, cases->at[k]) *
                        law_at(beta, cases->u + (size_t)k * cases->terms, cases->terms),
                    cases->y[k]);
    }
}

static void elementwise_try(struct aw_validate *validate, const struct aw_serving_table *table,
                            struct cases *cases, const struct cases *scratch)
{
    static const char *const names[] = {"input_layernorm", "attn_rope", "post_attention_layernorm",
                                        "mlp_act", "add"};
    for (size_t op = 0; op < sizeof names / sizeof *names; op++) {
        char name[64];
        snprintf(name, sizeof name, "time_stats.%s.median", names[op]);
        cases->n = 0;
        for (uint32_t r = 0; r < table->rows; r++) {
            const double y = MS * cell(table, r, name), tokens = cell(table, r, "num_tokens"),
                         tp = cell(table, r, "num_tensor_parallel_workers");
            if (!(y > 0) || !(tokens > 0) || !(tp > 0))
                continue;
            double *u = cases->u + 3 * (size_t)cases->n;
            u[0] = 1;
            u[1] = tokens;
            u[2] = tokens / tp;
            place(cases, tokens, tp, 1);
            cases->part[cases->n] = (uint32_t)(tokens / 8) % 2;
            cases->y[cases->n++] = y;
        }
        cases_try(validate, "elementwise", cases, scratch);
    }
}

static void attention_try(struct aw_validate *validate, const struct aw_serving_table *table,
                          bool prefill, struct cases *cases, const struct cases *scratch)
{
    cases->n = 0;
    for (uint32_t r = 0; r < table->rows; r++) {
        const double B = cell(table, r, "batch_size"), kv = cell(table, r, "kv_cache_size"),
                     chunk = cell(table, r, "prefill_chunk_size"),
                     tp = cell(table, r, "num_tensor_parallel_workers"),
                     y = MS * cell(table, r,
                                   prefill ? "time_stats.attn_prefill.median"
                                           : "time_stats.attn_decode.median");
        if (!(y > 0) || !(B > 0) || !(kv >= 0) || !(tp > 0) || prefill != (chunk > 0))
            continue;
        double *u = cases->u + 4 * (size_t)cases->n;
        u[0] = 1;
        u[1] = (prefill ? chunk : B) / tp;
        u[2] = (prefill ? chunk * kv : B * kv) / tp;
        u[3] = (prefill ? chunk * chunk : kv) / tp;
        place(cases, B, kv + 1, chunk + 1);
        cases->part[cases->n] = (uint32_t)(B * 7 + kv / 16 + chunk / 16) % 2;
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
        const double kind =
            cell(table, first, "num_workers") * 1000 + cell(table, first, "devices_per_node");
        bool known = !isfinite(kind);
        for (uint32_t k = 0; k < kinds; k++)
            known |= done[k] == kind;
        if (known)
            continue;
        done[kinds++] = kind;
        cases->n = 0;
        for (uint32_t r = 0; r < table->rows; r++) {
            const double y = MS * cell(table, r, time), size = cell(table, r, "size");
            if (cell(table, r, "num_workers") * 1000 + cell(table, r, "devices_per_node") != kind ||
                !(y > 0) || !(size > 0))
                continue;
            double *u = cases->u + 3 * (size_t)cases->n;
            u[0] = 1;
            u[1] = size;
            u[2] = sqrt(size);
            place(cases, size, 1, 1);
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
    static const char *const mlp[] = {
        "time_stats.mlp_up_proj.median", "n_embd", "n_expanded_embd", "num_tokens",
        "num_tensor_parallel_workers",   NULL};
    static const char *const attention[] = {"time_stats.attn_decode.median",
                                            "time_stats.attn_prefill.median", "batch_size",
                                            "kv_cache_size", NULL};
    static const char *const reduce[] = {"time_stats.all_reduce.median", "num_workers", "size",
                                         NULL};
    static const char *const send[] = {"time_stats.send_recv.median", "num_workers", "size", NULL};
    const bool is_mlp = aw_serving_table_has(table, mlp),
               is_attention = aw_serving_table_has(table, attention),
               is_reduce = aw_serving_table_has(table, reduce),
               is_send = aw_serving_table_has(table, send);
    struct cases cases = {0}, scratch = {0};
    *ret_mine = is_mlp || is_attention || is_reduce || is_send;
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
        network_try(validate, table, is_reduce ? reduce[0] : send[0], &cases, &scratch);
    }
    cases_deinit(&cases);
    cases_deinit(&scratch);
    return err;
}

/* --- phases ----------------------------------------------------------------------------------- */

/* Time of a batch's prompts: a line between the nearest numbers of tokens that were seen. */
static double prompt_predict(const struct aw_serving_table *table, const uint32_t *row, uint32_t n,
                             const uint32_t *part, uint32_t out)
{
    const double at = cell(table, row[out], "prompt_size") * cell(table, row[out], "batch_size");
    double x[2] = {-INFINITY, INFINITY}, y[2] = {0, 0}, most[2] = {0, 0};
    uint32_t count[2] = {0, 0};
    for (uint32_t side = 0; side < 2; side++)
        for (uint32_t i = 0; i < n; i++) {
            const double tokens =
                cell(table, row[i], "prompt_size") * cell(table, row[i], "batch_size");
            if (part[i] == part[out] || (side == 0 ? tokens > at : tokens < at))
                continue;
            if (side == 0 ? tokens > x[0] : tokens < x[1]) {
                x[side] = tokens;
                y[side] = count[side] = 0;
            }
            if (tokens == x[side]) {
                y[side] += cell(table, row[i], "prompt_time");
                count[side]++;
            }
            most[side] = fmax(most[side], tokens);
        }
    if (count[0] && count[1] && x[0] < x[1])
        return y[0] / count[0] + (y[1] / count[1] - y[0] / count[0]) * (at - x[0]) / (x[1] - x[0]);
    if (count[0]) /* as much again for each token, beyond the largest */
        return y[0] / count[0] * fmax(at / x[0], 1);
    return count[1] ? y[1] / count[1] : NAN;
}

enum aw_err aw__validate_phases(struct aw_validate *validate, const char *path,
                                const struct aw_serving_table *table, bool *ret_mine,
                                struct aw_diag *diag)
{
    static const char *const names[] = {"model",      "hardware",        "prompt_size",
                                        "batch_size", "token_size",      "prompt_time",
                                        "token_time", "tensor_parallel", NULL};
    struct cases cases = {0}, scratch = {0};
    if (!(*ret_mine = aw_serving_table_has(table, names)))
        return AW_OK;
    uint64_t *group = aw_alloc_new(NULL, table->rows, sizeof *group);
    uint32_t *row = aw_alloc_new(NULL, table->rows, sizeof *row);
    enum aw_err err = AW_OK;
    if (!group || !row || !cases_init(&cases, table->rows, 4) ||
        !cases_init(&scratch, table->rows, 4))
        err = aw_fail(diag, AW_ERR_NOMEM, "no memory for %s", path);
    static const char *const keys[] = {"model", "hardware", "tensor_parallel"};
    for (uint32_t r = 0; !err && r < table->rows; r++) {
        group[r] = AW_HASH_BEGIN;
        for (uint32_t k = 0; k < 3; k++)
            group[r] = aw_hash_byte(
                aw_hash_text(group[r], aw_serving_table_text(
                                           table, r, aw_serving_table_column(table, keys[k]))),
                0);
    }
    for (uint32_t first = 0; !err && first < table->rows; first++) {
        bool known = false;
        for (uint32_t k = 0; k < first && !known; k++)
            known = group[k] == group[first];
        cases.n = 0;
        for (uint32_t r = first; !known && r < table->rows; r++) {
            const double prompt = cell(table, r, "prompt_size"), B = cell(table, r, "batch_size"),
                         answer = cell(table, r, "token_size"), y = cell(table, r, "token_time");
            if (group[r] != group[first] || !(y > 0) || !(B > 0) || !(prompt > 0) || !(answer > 0))
                continue;
            double *u = cases.u + 4 * (size_t)cases.n;
            u[0] = 1;
            u[1] = B;
            u[2] = B * (prompt + answer / 2);
            u[3] = B * B;
            place(&cases, B, prompt, answer);
            cases.part[cases.n] = (uint32_t)(prompt * 131 + B * 7 + answer * 31013);
            row[cases.n] = r;
            cases.y[cases.n++] = y;
        }
        cases_try(validate, "decode", &cases, &scratch);
        for (uint32_t i = 0; i < cases.n; i++) {
            const double measured = cell(table, row[i], "prompt_time");
            const double predicted = prompt_predict(table, row, cases.n, cases.part, i);
            if (measured > 0 && isfinite(predicted))
                aw__validate_error(validate, "prefill", predicted, measured);
        }
    }
    aw_alloc_free(NULL, group);
    aw_alloc_free(NULL, row);
    cases_deinit(&cases);
    cases_deinit(&scratch);
    return err;
}

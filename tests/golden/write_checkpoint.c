/*
 * write_checkpoint.c - writes a small checkpoint for check_torch.py to load.
 *
 *     write-checkpoint FILE
 *
 * An actor and a two-layer GRU both ways, with the input and the output of each beside them
 * (check.*), so that the reader can tell not only that the weights load but that they mean the
 * same.
 */
#include "nn/gru.h"
#include "nn/mlp.h"
#include "nn/safetensors.h"

#include <stdio.h>

enum { B = 3, T = 4, IN = 5, ACTIONS = 2, HIDDEN = 6 };

static enum aw_err write_checkpoint(const char *path, struct aw_diag *diag)
{
    const uint32_t widths[] = {IN, 8, 7, ACTIONS};
    struct aw_params params = {0};
    struct aw_mlp actor;
    struct aw_gru encoder;
    struct aw_mlp_cache actor_cache = {0};
    struct aw_gru_cache *encoder_cache = NULL;
    struct aw_safetensors_writer *writer = NULL;
    struct aw_rng rng;
    float obs[B * IN], sequence[T * B * IN];
    aw_rng_init(&rng, 42, 0);

    aw_mlp_declare(&actor, &params, "actor", widths, 4, AW_ACT_RELU, AW_ACT_TANH);
    aw_gru_declare(&encoder, &params, "encoder", IN, HIDDEN, 2, true);
    enum aw_err err = aw_params_alloc(&params, NULL);
    if (!err)
        err = aw_mlp_cache_init(&actor_cache, &actor, B, NULL);
    if (!err)
        err = aw_gru_cache_new(&encoder, T, B, false, NULL, &encoder_cache);
    if (!err)
        err = aw_safetensors_writer_new(NULL, &writer);
    if (err)
        goto out;

    aw_mlp_init_fan_in(&actor, params.value, 0, &rng);
    aw_gru_init_uniform(&encoder, params.value, &rng);
    aw_rng_fill_normal(&rng, obs, B * IN);
    aw_rng_fill_normal(&rng, sequence, T * B * IN);
    const float *action = aw_mlp_forward(&actor, params.value, obs, B, &actor_cache);
    const float *encoded =
        aw_gru_forward(&encoder, params.value, sequence, T, B, encoder_cache, NULL);

    const int64_t step = 7;
    err = aw_safetensors_add_params(writer, &params, params.value, "");
    if (!err)
        err = aw_safetensors_add(writer, "check.obs", AW_DTYPE_F32, 2, (const uint64_t[]){B, IN},
                                 obs);
    if (!err)
        err = aw_safetensors_add(writer, "check.action", AW_DTYPE_F32, 2,
                                 (const uint64_t[]){B, ACTIONS}, action);
    if (!err)
        err = aw_safetensors_add(writer, "check.sequence", AW_DTYPE_F32, 3,
                                 (const uint64_t[]){T, B, IN}, sequence);
    if (!err)
        err = aw_safetensors_add(writer, "check.encoded", AW_DTYPE_F32, 3,
                                 (const uint64_t[]){T, B, 2 * HIDDEN}, encoded);
    if (!err)
        err = aw_safetensors_add(writer, "step", AW_DTYPE_I64, 0, NULL, &step);
    if (!err)
        err = aw_safetensors_add_meta(writer, "seed", "42");
    if (!err)
        err = aw_safetensors_write(writer, path, diag);
out:
    aw_safetensors_writer_free(writer);
    aw_gru_cache_free(encoder_cache);
    aw_mlp_cache_deinit(&actor_cache);
    aw_params_deinit(&params);
    return err;
}

int main(int argc, char **argv)
{
    struct aw_diag diag = {0};
    char line[1024];
    if (argc != 2) {
        fprintf(stderr, "usage: %s FILE\n", argv[0]);
        return aw_err_exit_code(AW_ERR_USAGE);
    }
    enum aw_err err = write_checkpoint(argv[1], &diag);
    if (err)
        fprintf(stderr, "%s\n", aw_diag_format(&diag, err, line, sizeof(line)));
    return aw_err_exit_code(err);
}

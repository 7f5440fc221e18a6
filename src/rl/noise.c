/* noise.c - exploration noise and schedules. */
#include "rl/noise.h"

#include <math.h>

const char *const aw_noise_kind_names[] = {"none", "ou", "gaussian", NULL};

enum aw_err aw_noise_init(struct aw_noise *noise, const struct aw_noise_config *config,
                          const struct aw_alloc *alloc)
{
    *noise = (struct aw_noise){0};
    size_t count = (size_t)config->env_count * config->act_dim;
    float *x = aw_alloc_new(alloc, count, sizeof *x);
    if (!x)
        return AW_ERR_NOMEM;
    *noise = (struct aw_noise){
        .kind = config->kind,
        .env_count = config->env_count,
        .act_dim = config->act_dim,
        .sigma = config->sigma,
        .mu = config->mu,
        .theta = config->theta,
        .dt = config->dt,
        .x = x,
        .alloc = alloc,
    };
    for (uint32_t env = 0; env < noise->env_count; env++)
        aw_noise_reset(noise, env);
    return AW_OK;
}

void aw_noise_deinit(struct aw_noise *noise)
{
    aw_alloc_free(noise->alloc, noise->x);
    *noise = (struct aw_noise){0};
}

void aw_noise_sample(struct aw_noise *noise, uint32_t env, struct aw_rng *rng, float *ret_noise)
{
    AW_ASSERT(env < noise->env_count);
    float *x = noise->x + (size_t)env * noise->act_dim;
    float diffusion = noise->sigma * sqrtf(noise->dt);
    for (uint32_t j = 0; j < noise->act_dim; j++) {
        switch (noise->kind) {
        case AW_NOISE_NONE:
            ret_noise[j] = 0;
            break;
        case AW_NOISE_OU:
            x[j] += noise->theta * (noise->mu - x[j]) * noise->dt +
                    diffusion * (float)aw_rng_normal(rng);
            ret_noise[j] = x[j];
            break;
        case AW_NOISE_GAUSSIAN:
            ret_noise[j] = noise->sigma * (float)aw_rng_normal(rng);
            break;
        }
    }
}

void aw_noise_reset(struct aw_noise *noise, uint32_t env)
{
    AW_ASSERT(env < noise->env_count);
    for (uint32_t j = 0; j < noise->act_dim; j++)
        noise->x[(size_t)env * noise->act_dim + j] = noise->mu;
}

void aw_noise_persist(struct aw_noise *noise, struct aw_persist *persist, const char *name)
{
    aw_persist_add(persist, AW_PERSIST_STATE, name, AW_DTYPE_F32,
                   (uint64_t)noise->env_count * noise->act_dim, noise->x);
}

double aw_schedule_linear(double start, double end, double duration, double t)
{
    if (t >= duration)
        return end;
    return t <= 0 ? start : start + (end - start) * (t / duration);
}

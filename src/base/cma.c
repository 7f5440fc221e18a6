/* cma.c - covariance matrix adaptation, after Hansen's tutorial; equation numbers are its. */
#include "base/cma.h"

#include <math.h>
#include <string.h>

#define SWEEPS_MAX 30
#define STEP_MAX   3.0
#define GROWTH_MAX 0.6 /* of ln step in one generation */

void aw_cma_init(struct aw_cma *cma, uint32_t dim, const double *start, double deviation,
                 uint32_t draws, uint64_t seed)
{
    AW_ASSERT(dim > 0 && dim <= AW_CMA_DIM_MAX && draws >= 4 && draws <= AW_CMA_DRAWS_MAX);
    memset(cma, 0, sizeof *cma);
    const double n = dim;
    cma->dim = dim;
    cma->draws = draws;
    cma->parents = draws / 2;
    aw_rng_init(&cma->rng, seed, 0);
    cma->step = deviation;
    cma->best_value = INFINITY;
    double sum = 0, square = 0;
    for (uint32_t i = 0; i < cma->parents; i++) { /* (49) */
        cma->weight[i] = log(cma->parents + 0.5) - log(i + 1);
        sum += cma->weight[i];
    }
    for (uint32_t i = 0; i < cma->parents; i++) {
        cma->weight[i] /= sum;
        square += cma->weight[i] * cma->weight[i];
    }
    cma->mass = 1 / square;
    cma->c_path = (4 + cma->mass / n) / (n + 4 + 2 * cma->mass / n);         /* (56) */
    cma->c_step = (cma->mass + 2) / (n + cma->mass + 5);                     /* (55) */
    cma->c_one = 2 / ((n + 1.3) * (n + 1.3) + cma->mass);                    /* (57) */
    cma->c_many = fmin(1 - cma->c_one, 2 * (cma->mass - 2 + 1 / cma->mass) / /* (58) */
                                           ((n + 2) * (n + 2) + cma->mass));
    cma->damping = 1 + 2 * fmax(0, sqrt((cma->mass - 1) / (n + 1)) - 1) + cma->c_step;
    cma->expected = sqrt(n) * (1 - 1 / (4 * n) + 1 / (21 * n * n));
    for (uint32_t i = 0; i < dim; i++) {
        cma->mean[i] = cma->best[i] = start[i];
        cma->covariance[i][i] = cma->axes[i][i] = cma->length[i] = 1;
    }
}

static double fold(double x)
{
    x = fmod(fabs(x), 2);
    return x > 1 ? 2 - x : x;
}

void aw_cma_ask(struct aw_cma *cma)
{
    for (uint32_t k = 0; k < cma->draws; k++) {
        double z[AW_CMA_DIM_MAX];
        for (uint32_t i = 0; i < cma->dim; i++)
            z[i] = cma->length[i] * aw_rng_normal(&cma->rng);
        for (uint32_t i = 0; i < cma->dim; i++) {
            double y = 0;
            for (uint32_t j = 0; j < cma->dim; j++)
                y += cma->axes[i][j] * z[j];
            cma->x[k][i] = fold(cma->mean[i] + cma->step * y);
        }
    }
    if (cma->generation == 0)
        memcpy(cma->x[0], cma->mean, sizeof cma->x[0]);
}

/* Eigenvectors and roots of eigenvalues of the covariance, by Jacobi's rotations. */
static void decompose(struct aw_cma *cma)
{
    const uint32_t n = cma->dim;
    double a[AW_CMA_DIM_MAX][AW_CMA_DIM_MAX];
    memcpy(a, cma->covariance, sizeof a);
    memset(cma->axes, 0, sizeof cma->axes);
    for (uint32_t i = 0; i < n; i++)
        cma->axes[i][i] = 1;
    for (int sweep = 0; sweep < SWEEPS_MAX; sweep++) {
        double off = 0;
        for (uint32_t p = 0; p < n; p++)
            for (uint32_t q = p + 1; q < n; q++) {
                off += a[p][q] * a[p][q];
                if (fabs(a[p][q]) < 1e-15)
                    continue;
                const double theta = (a[q][q] - a[p][p]) / (2 * a[p][q]);
                const double t = (theta < 0 ? -1 : 1) / (fabs(theta) + sqrt(theta * theta + 1));
                const double c = 1 / sqrt(t * t + 1), s = t * c;
                for (uint32_t k = 0; k < n; k++) {
                    const double x = a[k][p], y = a[k][q];
                    a[k][p] = c * x - s * y;
                    a[k][q] = s * x + c * y;
                }
                for (uint32_t k = 0; k < n; k++) {
                    const double x = a[p][k], y = a[q][k];
                    a[p][k] = c * x - s * y;
                    a[q][k] = s * x + c * y;
                }
                for (uint32_t k = 0; k < n; k++) {
                    const double x = cma->axes[k][p], y = cma->axes[k][q];
                    cma->axes[k][p] = c * x - s * y;
                    cma->axes[k][q] = s * x + c * y;
                }
            }
        if (off < 1e-20)
            break;
    }
    for (uint32_t i = 0; i < n; i++)
        cma->length[i] = sqrt(fmax(a[i][i], 1e-12));
}

static void order(const struct aw_cma *cma, const double *value, uint32_t *rank)
{
    for (uint32_t i = 0; i < cma->draws;
         i++) { /* few: insertion, and equal ones keep their order */
        const double v = isfinite(value[i]) ? value[i] : INFINITY;
        uint32_t at = i;
        for (; at > 0; at--) {
            const double before = isfinite(value[rank[at - 1]]) ? value[rank[at - 1]] : INFINITY;
            if (before <= v)
                break;
            rank[at] = rank[at - 1];
        }
        rank[at] = i;
    }
}

void aw_cma_tell(struct aw_cma *cma, const double *value)
{
    const uint32_t n = cma->dim;
    uint32_t rank[AW_CMA_DRAWS_MAX];
    order(cma, value, rank);
    if (value[rank[0]] < cma->best_value) {
        cma->best_value = value[rank[0]];
        memcpy(cma->best, cma->x[rank[0]], sizeof cma->best);
    }
    double old[AW_CMA_DIM_MAX], y[AW_CMA_DIM_MAX] = {0}, white[AW_CMA_DIM_MAX] = {0};
    memcpy(old, cma->mean, sizeof old);
    for (uint32_t k = 0; k < cma->parents; k++)
        for (uint32_t i = 0; i < n; i++)
            y[i] += cma->weight[k] * (cma->x[rank[k]][i] - old[i]) / cma->step;
    for (uint32_t i = 0; i < n; i++)
        cma->mean[i] = fmin(1, fmax(0, old[i] + cma->step * y[i]));
    for (uint32_t j = 0; j < n; j++) { /* C^-1/2 y */
        double along = 0;
        for (uint32_t i = 0; i < n; i++)
            along += cma->axes[i][j] * y[i];
        for (uint32_t i = 0; i < n; i++)
            white[i] += cma->axes[i][j] * along / cma->length[j];
    }
    double norm = 0;
    for (uint32_t i = 0; i < n; i++) { /* (43) */
        cma->path_step[i] = (1 - cma->c_step) * cma->path_step[i] +
                            sqrt(cma->c_step * (2 - cma->c_step) * cma->mass) * white[i];
        norm += cma->path_step[i] * cma->path_step[i];
    }
    norm = sqrt(norm);
    cma->generation++;
    const double settled = sqrt(1 - pow(1 - cma->c_step, 2.0 * cma->generation));
    const bool short_path = norm / settled / cma->expected < 1.4 + 2.0 / (n + 1);
    for (uint32_t i = 0; i < n; i++) /* (45) */
        cma->path[i] = (1 - cma->c_path) * cma->path[i] +
                       (short_path ? sqrt(cma->c_path * (2 - cma->c_path) * cma->mass) * y[i] : 0);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j <= i; j++) { /* (47) */
            double many = 0;
            for (uint32_t k = 0; k < cma->parents; k++)
                many += cma->weight[k] * (cma->x[rank[k]][i] - old[i]) *
                        (cma->x[rank[k]][j] - old[j]) / (cma->step * cma->step);
            const double one =
                cma->path[i] * cma->path[j] +
                (short_path ? 0 : cma->c_path * (2 - cma->c_path)) * cma->covariance[i][j];
            cma->covariance[i][j] = cma->covariance[j][i] =
                (1 - cma->c_one - cma->c_many) * cma->covariance[i][j] + cma->c_one * one +
                cma->c_many * many;
        }
    const double growth = cma->c_step / cma->damping * (norm / cma->expected - 1); /* (44) */
    cma->step = fmin(STEP_MAX, cma->step * exp(fmin(GROWTH_MAX, growth)));
    decompose(cma);
}

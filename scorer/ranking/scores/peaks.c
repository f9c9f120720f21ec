#define SCALE 1e15 /* the peer computes with whole numbers, and so multiplies by this first */

typedef struct {
    int64_t peer;
} Peaks;

/* Return by how much the power rises, NaN where that is unknown: the least is the best (see `compared`). */
static inline double peaks(const Row *m, const More *c, const Query *q, const Peaks *p, const double *x, double *said) {
    double added = p->peer ? q->amounts[CPU] : q->expected[CPU];
    double capacity = c->capacity[CPU], before = 100.0 * m->mean[CPU] / capacity;
    double after = 100.0 * (m->mean[CPU] + added) / capacity;
    if (p->peer && capacity == 0) after = 0.0;
    double rise = c->power[1] * (exp(c->power[2] * after) - exp(c->power[2] * before));
    if (p->peer)
        rise = after > 100.0 ? 0.0 : or_zero(trunc(rise * SCALE));
    else if (!(c->power[1] != 0 && after <= 100.0) || !isfinite(rise))
        rise = NAN;
    if (said) said[0] = rise;
    return rise;
}
SCORE(peaks, Peaks)

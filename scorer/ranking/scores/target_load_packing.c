typedef struct {
    double target; /* in percent */
    int32_t resource, of_capacity, rounding;
} TargetLoadPacking;

/* Return the score of a utilization in percent: rising to 100 at the target, from there falling to 0 at 100. */
static inline double packing(double utilization, double target) {
    if (utilization > 100.0) return 0.0;
    if (utilization > target) return target < 100 ? target * (100.0 - utilization) / (100.0 - target) : 0.0;
    return (100.0 - target) * utilization / target + target;
}

/* said: the utilization with the instance, in percent. */
static inline double target_load_packing(const Row *m, const More *c, const Query *q, const TargetLoadPacking *p,
                                         const double *x, double *said) {
    int r = p->resource;
    double limit = p->of_capacity ? c->capacity[r] : m->allocatable[r];
    double utilization = 100.0 * (m->mean[r] + q->expected[r]) / limit;
    if (limit == 0 && isfinite(m->mean[r])) utilization = 0.0;
    if (said) said[0] = utilization;
    double score = packing(utilization, p->target);
    return clip(or_zero(p->rounding ? round_half_away(score) : score), 0.0, 100.0);
}
SCORE(target_load_packing, TargetLoadPacking)

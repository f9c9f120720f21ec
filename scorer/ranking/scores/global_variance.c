typedef struct {
    double factor[R]; /* -25 times the weight's share */
} GlobalVariance;

/* said: by how much the variance changes, times the number of machines; the fleet's means. Not clipped to 0-100. */
static inline double global_variance(const Row *m, const More *c, const Query *q, const GlobalVariance *p,
                                     const double *x, double *said) {
    double score = 75.0, most = 0.0;
    for (int r = 0; r < R; r++) {
        if (p->factor[r] == 0) continue;
        most = more_of(most, 1.0 / q->fleet_share[r]);
        if (said) said[1 + r] = q->fleet_mean[r];
        double load = m->utilization[r], added = m->inverse[r] * q->expected[r];
        if (isnan(load) || !(q->expected[r] > 0)) continue;
        score += p->factor[r] * (added * (2.0 * (load - q->fleet_mean[r]) + added * (1.0 - q->fleet_share[r])));
    }
    if (!m->has_load) score = 0.0;
    if (said) said[0] = (75.0 - score) / 25.0 / most;
    return score;
}

static inline double global_variance_slope(const Row *m, const Query *q, const GlobalVariance *p, int r) {
    return m->has_load && !isnan(m->utilization[r]) ? 2.0 * p->factor[r] * m->inverse[r] * q->expected[r] : 0.0;
}
SCORE_OF_MEANS(global_variance, GlobalVariance)

#include "../kernel/normal.h"

typedef struct {
    double factor[R]; /* -25 times the weight's share; 0 for a resource without a weight */
    double limit, std_factor, floor, evenness, variation, learned_variation;
    int32_t of_requests, learned;
} ExpectedOverload;

/* Return the standard deviation of the usage of the instance that is asked for. */
static inline double deviation_of(const Query *q, const ExpectedOverload *p, int r) {
    if (p->learned && isfinite(q->deviation[r])) return p->learned_variation * q->deviation[r];
    int larger = p->of_requests && !q->declared[r] && q->amounts[r] > q->expected[r];
    return p->variation * (larger ? q->amounts[r] : q->expected[r]);
}

/* said, each by resource: chance above the limit, overload with the instance and without. Not clipped to 0-100. */
static inline double expected_overload(const Row *m, const More *c, const Query *q, const ExpectedOverload *p,
                                       const double *x, double *said) {
    double score = m->has_load ? 75.0 : 0.0;
    for (int r = 0; r < R; r++) {
        if (p->factor[r] == 0 || !(q->expected[r] > 0 || said)) continue;
        double load = m->utilization[r], inverse = m->known[r] ? m->inverse[r] : 0.0;
        double own = isnan(m->deviation[r]) ? 0.0 : m->deviation[r] * p->std_factor;
        double variance = own * own + p->floor * p->floor;
        double added = inverse * q->expected[r], deviation = inverse * deviation_of(q, p, r);
        if (isnan(load)) load = 0.0;
        double below = p->limit - load;
        if (said) {
            int unknown = isnan(m->utilization[r]);
            double before = sqrt(variance), spread = hypot(before, deviation); /* of which no square overflows */
            double away = (below - added) / spread;
            said[r] = unknown ? NAN : upper_tail(away);
            said[R + r] = unknown ? NAN : spread * excess_told(away);
            said[2 * R + r] = unknown ? NAN : before * excess_told(below / before);
        }
        if (!m->known[r] || !m->has_load || !(q->expected[r] > 0)) continue;
        double even = added * (2.0 * (load - q->fleet_mean[r]) + added * (1.0 - q->fleet_share[r]));
        score += p->factor[r] * p->evenness * even;
        double margin[2] = {below, below - added}, spread[2] = {variance, variance + deviation * deviation};
        if (margin[1] > 0 && margin[1] * margin[1] >= EXCESS_FAR * EXCESS_FAR * spread[1]) continue; /* both are 0 */
        for (int k = 0; k < 2; k++) spread[k] = sqrt(spread[k]);
        for (int k = 0; k < 2; k++) margin[k] /= spread[k];
        score += p->factor[r] * (spread[1] * excess(margin[1]) - spread[0] * excess(margin[0]));
    }
    return score;
}

static inline double expected_overload_slope(const Row *m, const Query *q, const ExpectedOverload *p, int r) {
    if (p->factor[r] == 0 || !m->known[r] || !m->has_load) return 0.0;
    return 2.0 * p->factor[r] * p->evenness * m->inverse[r] * q->expected[r];
}
SCORE_OF_MEANS(expected_overload, ExpectedOverload)

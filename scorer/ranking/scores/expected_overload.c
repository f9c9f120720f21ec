#include "../kernel/normal.h"

typedef struct {
    double factor[R];    /* -25 times the weight's share; 0 for a resource without a weight */
    double deviation[R]; /* of the usage of the instance that is asked for */
    double limit, std_factor, floor, evenness;
} ExpectedOverload;

/* said, each by resource: chance above the limit, overload with the instance and without. Not clipped to 0-100. */
static inline double expected_overload(const Row *m, const More *c, const Query *q, const ExpectedOverload *p,
                                       const double *x, double *said) {
    double score = m->has_load ? 75.0 : 0.0;
    for (int r = 0; r < R; r++) {
        if (p->factor[r] == 0 || !(q->expected[r] > 0 || said)) continue;
        double load = m->utilization[r], inverse = m->known[r] ? m->inverse[r] : 0.0;
        double own = isnan(m->deviation[r]) ? 0.0 : m->deviation[r] * p->std_factor;
        double variance = own * own + p->floor * p->floor;
        double added = inverse * q->expected[r], deviation = inverse * p->deviation[r];
        double before = sqrt(variance), after = sqrt(variance + deviation * deviation);
        if (isnan(load)) load = 0.0;
        double without = before * excess((p->limit - load) / before), z = (p->limit - load - added) / after;
        double with = after * excess(z);
        if (said) {
            int unknown = isnan(m->utilization[r]);
            double spread = hypot(before, deviation); /* of which no square overflows */
            double away = (p->limit - load - added) / spread;
            said[r] = unknown ? NAN : upper_tail(away);
            said[R + r] = unknown ? NAN : spread * excess_told(away);
            said[2 * R + r] = unknown ? NAN : before * excess_told((p->limit - load) / before);
        }
        if (!m->known[r] || !m->has_load || !(q->expected[r] > 0)) continue;
        double even = added * (2.0 * (load - q->fleet_mean[r]) + added * (1.0 - q->fleet_share[r]));
        score += p->factor[r] * (with - without + p->evenness * even);
    }
    return score;
}
SCORE(expected_overload, ExpectedOverload)

typedef struct {
    double thresholds[R], percentiles[R], prod[R];
    double units[R]; /* the peers' whole units of each resource */
    double expiration_s;
    int32_t has_percentiles, has_prod; /* whether the profile gives them */
    int32_t statistic;                 /* of the percentile thresholds, MEAN for none */
    int32_t with_system, pass_expired, missing, rounding, plain;
    uint8_t optional[R];
} UsageThreshold;

enum { REFUSED, PASSED, BY_ESTIMATES, BY_MEAN }; /* what counts where the statistic is missing */
enum { THRESHOLD_PROD_UNKNOWN = 1, THRESHOLD_UNKNOWN, THRESHOLD_PROD_OVER, THRESHOLD_OVER, THRESHOLD_WHYS = 4 };
#define THRESHOLD_STALE (THRESHOLD_WHYS * R + 1)

/* Return a statistic of the usage, with credits; as Koordinator counts it where it is missing. */
static inline double statistic_of(const Row *m, const More *c, int r, int statistic, int missing) {
    if (statistic == MEAN) return m->mean[r];
    double value = c->statistics[statistic][r];
    if (missing != BY_ESTIMATES && missing != BY_MEAN) return value;
    if (!isfinite(m->mean[r])) return NAN;
    if (isnan(value) || m->warming) return missing == BY_MEAN ? m->mean[r] : c->estimated[r];
    return value;
}

/* The percent as the peer rounds it, from whole amounts. */
static inline double whole_percent(double used, double allocatable, double unit) {
    return floor(rint(used * unit) / rint(allocatable * unit) * 100.0 + 0.5);
}

/* Return whether all usage is below the profile's own thresholds: of most machines, at a fifth of what follows. */
static inline int below_plain(const Row *m, const Query *q, const UsageThreshold *p) {
    int below = p->plain && !(m->own_thresholds | m->own_percentiles | m->own_prod | p->has_percentiles) &&
                !(p->has_prod && q->priority_class == PROD);
    for (int r = 0; r < R; r++) {
        double left = p->thresholds[r] * m->allocatable[r] * (1 + ROUNDING) - m->mean[r];
        below &= (p->thresholds[r] <= 0) | (left >= q->expected[r]);
    }
    return below;
}

static inline int64_t usage_threshold(const Row *m, const More *c, const Query *q, const UsageThreshold *p,
                                      const double *x, double *said) {
    if (!said && below_plain(m, q, p)) return 0;
    int64_t found = 0;
    int checked = 0, by_prod = q->priority_class == PROD && (p->has_prod || m->own_prod);
    int by_percentile = p->has_percentiles || m->own_percentiles;
    for (int r = 0; r < R; r++) {
        double threshold = m->own_thresholds ? or_zero(c->thresholds[r]) : p->thresholds[r], usage = m->mean[r];
        if (by_prod) {
            threshold = m->own_prod ? or_zero(c->prod_thresholds[r]) : p->prod[r];
            usage = c->prod[r] + (p->with_system ? or_zero(c->system[r]) : 0.0);
        } else if (by_percentile) {
            threshold = m->own_percentiles ? or_zero(c->percentiles[r]) : p->percentiles[r];
            usage = statistic_of(m, c, r, p->statistic, p->missing);
        }
        if (said) {
            said[r] = (usage + q->expected[r]) / m->allocatable[r];
            said[R + r] = threshold;
            said[2 * R] = by_prod;
        }
        checked |= threshold > 0;
        if (found || !(threshold > 0 && m->allocatable[r] > 0)) continue;
        double expected = q->expected[r];
        int over, unused = p->optional[r] && expected <= 0;
        if (p->rounding)
            over = !(whole_percent(usage + expected, m->allocatable[r], p->units[r]) <= threshold * 100.0 + 1e-9);
        else if (p->plain)
            over = !(threshold * m->allocatable[r] * (1 + ROUNDING) - usage >= expected);
        else
            over = !(usage + expected <= threshold * m->allocatable[r] * (1 + ROUNDING));
        if (isnan(usage) && (p->missing != REFUSED || unused)) over = 0;
        if (!over) continue;
        found = THRESHOLD_WHYS * r + (isnan(usage) ? (by_prod ? THRESHOLD_PROD_UNKNOWN : THRESHOLD_UNKNOWN)
                                                   : (by_prod ? THRESHOLD_PROD_OVER : THRESHOLD_OVER));
    }
    if (p->plain) return found;
    if (p->missing != REFUSED && !m->has_data) found = 0;
    int expired = p->expiration_s > 0 && !q->last_known && q->now - m->seen_at >= p->expiration_s;
    if (m->has_data && checked && expired) return p->pass_expired ? 0 : THRESHOLD_STALE;
    return found && expired && !p->pass_expired ? THRESHOLD_STALE : found;
}
FILTER(usage_threshold, UsageThreshold)

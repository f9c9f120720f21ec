typedef struct {
    double thresholds[CLASSES][R]; /* by the class of the request */
    double percentiles[R], prod[R];
    double units[R]; /* the peers' whole units of each resource */
    double expiration_s;
    int32_t has_percentiles, has_prod; /* whether the profile gives them */
    int32_t statistic;                 /* of the percentile thresholds, MEAN for none */
    int32_t with_system, pass_expired, missing, rounding, plain;
    int32_t instead; /* the first group that is given is compared alone */
    uint8_t optional[R];
} UsageThreshold;

enum { OF_MEAN, OF_PERCENTILE, OF_PROD_USE, GROUPS }; /* the groups of thresholds */
enum { REFUSED, PASSED, BY_ESTIMATES, BY_MEAN };      /* what counts where the statistic is missing */
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
        double threshold = p->thresholds[q->priority_class][r];
        if (threshold <= 0) continue;
        below &= threshold * m->allocatable[r] * (1 + ROUNDING) - m->mean[r] >= q->expected[r];
    }
    return below;
}

/* Return whether one use, with the requested instance, is above a threshold. */
static inline int is_over(const UsageThreshold *p, int r, double usage, double expected, double allocatable,
                          double threshold) {
    if (isnan(usage) && (p->missing != REFUSED || (p->optional[r] && expected <= 0))) return 0;
    if (p->rounding) return !(whole_percent(usage + expected, allocatable, p->units[r]) <= threshold * 100.0 + 1e-9);
    if (p->plain) return !(threshold * allocatable * (1 + ROUNDING) - usage >= expected);
    return !(usage + expected <= threshold * allocatable * (1 + ROUNDING));
}

/* said, by resource: the compared use and its threshold, as shares, and the group; the one that is over, or the first. */
static inline int64_t usage_threshold(const Row *m, const More *c, const Query *q, const UsageThreshold *p,
                                      const double *x, double *said) {
    if (!said && below_plain(m, q, p)) return 0;
    const double *given[GROUPS] = {p->thresholds[q->priority_class], p->percentiles, p->prod};
    const double *owns[GROUPS] = {c->thresholds, c->percentiles, c->prod_thresholds};
    int own[GROUPS] = {m->own_thresholds, m->own_percentiles, m->own_prod};
    int there[GROUPS] = {1, p->has_percentiles || own[OF_PERCENTILE],
                         q->priority_class == PROD && (p->has_prod || own[OF_PROD_USE])};
    if (p->instead) {
        there[OF_PERCENTILE] = there[OF_PERCENTILE] && !there[OF_PROD_USE];
        there[OF_MEAN] = !there[OF_PERCENTILE] && !there[OF_PROD_USE];
    }
    int64_t found = 0;
    int checked = 0;
    for (int r = 0; r < R; r++) {
        double expected = q->expected[r];
        int told = 0;
        for (int group = 0; group < GROUPS; group++) {
            if (!there[group]) continue;
            double threshold = given[group][r], usage = m->mean[r];
            if (own[group] && (p->instead || !isnan(owns[group][r]))) threshold = or_zero(owns[group][r]);
            if (group == OF_PERCENTILE) usage = statistic_of(m, c, r, p->statistic, p->missing);
            if (group == OF_PROD_USE) usage = c->prod[r] + (p->with_system ? or_zero(c->system[r]) : 0.0);
            int compared = threshold > 0 && m->allocatable[r] > 0;
            int over = compared && is_over(p, r, usage, expected, m->allocatable[r], threshold);
            checked |= threshold > 0;
            if (said && (told < 1 + over || (told == 1 && compared && !(said[R + r] > 0)))) {
                told = 1 + over;
                said[r] = (usage + expected) / m->allocatable[r];
                said[R + r] = threshold;
                said[2 * R + r] = group;
            }
            if (!over || found) continue;
            found =
                THRESHOLD_WHYS * r + (isnan(usage) ? (group == OF_PROD_USE ? THRESHOLD_PROD_UNKNOWN : THRESHOLD_UNKNOWN)
                                                   : (group == OF_PROD_USE ? THRESHOLD_PROD_OVER : THRESHOLD_OVER));
        }
    }
    if (p->plain) return found;
    if (p->missing != REFUSED && !m->has_data) found = 0;
    int expired = p->expiration_s > 0 && !q->last_known && q->now - m->seen_at >= p->expiration_s;
    if (m->has_data && checked && expired) return p->pass_expired ? 0 : THRESHOLD_STALE;
    return found && expired && !p->pass_expired ? THRESHOLD_STALE : found;
}
FILTER(usage_threshold, UsageThreshold)

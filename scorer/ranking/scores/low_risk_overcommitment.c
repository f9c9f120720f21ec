#include "../kernel/beta.h"

#define VARIANCE_SHARE_MAX 0.99

typedef struct {
    double smoothing; /* the root of the smoothing window */
    double weights[R];
    int32_t rounding;
    uint8_t used[R];
} LowRiskOvercommitment;

/* Return 0-1: the part of limits less requests that is above the capacity. */
static inline double limit_risk(double requests, double limits, double capacity) {
    return limits > capacity ? (limits - capacity) / more_of(limits - requests, 1e-300) : 0.0;
}

/* Return 0-1: the probability that the load exceeds what is requested, given that it keeps below the limits. */
static inline double load_risk(double mu, double sigma, double requests, double limits, double capacity) {
    if (!(isfinite(mu) && capacity > 0)) return 0.0;
    mu = clip(mu, 0.0, 1.0);
    double request_share = clip(requests / capacity, 0.0, 1.0), limit_share = limits / capacity;
    sigma = less_of(or_zero(sigma), sqrt(VARIANCE_SHARE_MAX * mu * (1.0 - mu)));
    double variance = sigma * sigma, t = mu * (1.0 - mu) / variance - 1.0, alpha = mu * t, beta = (1.0 - mu) * t;
    int fits = variance > 0 && alpha > 0 && beta > 0 && isfinite(t);
    double within = fits ? beta_distribution(request_share, alpha, beta) : 0.0;
    if (sigma == 0) within = mu <= request_share ? 1.0 : 0.0;
    if (mu == 0) within = 1.0;
    if (limits < capacity && requests <= limits) {
        double below = fits ? beta_distribution(limit_share, alpha, beta) : 1.0;
        if (limit_share == 0)
            within = 1.0;
        else if (below > 0)
            within = clip(within / below, 0.0, 1.0);
    }
    return 1.0 - within;
}

/* said: the risk by resource. */
static inline double low_risk_overcommitment(const Row *m, const More *c, const Query *q,
                                             const LowRiskOvercommitment *p, const double *x, double *said) {
    double worst = 0.0, asked = 0.0;
    for (int r = 0; r < R; r++) {
        asked += q->limits[r];
        if (!p->used[r]) continue;
        double capacity = or_zero(m->allocatable[r]);
        double requests = less_of(m->allocated[r], capacity);
        double after = less_of(m->allocated[r] + q->amounts[r], capacity);
        double by_limit = limit_risk(after, c->limited[r] + q->limits[r], capacity);
        double sigma = c->std[r] / capacity;
        sigma = isnan(sigma) ? sigma : clip(sigma, 0.0, 1.0) * p->smoothing;
        double by_load = load_risk(m->mean[r] / capacity, sigma, requests, c->limited[r], capacity);
        double risk = clip(p->weights[r] * by_limit + (1.0 - p->weights[r]) * by_load, 0.0, 1.0);
        if (said) said[r] = risk;
        worst = more_of(worst, risk);
    }
    if (asked == 0 || !m->has_data) return 0.0; /* one that asks for nothing is best-effort */
    return p->rounding ? round_half_away(100.0 * (1.0 - worst)) : 100.0 * (1.0 - worst);
}
SCORE(low_risk_overcommitment, LowRiskOvercommitment)

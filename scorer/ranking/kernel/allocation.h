/* What the scores of kube-scheduler's NodeResourcesFit share (formulas/allocation.py has the settings). */
#include "row.h"

enum { BY_REQUESTS, BY_USED, BY_TAKEN };

typedef struct {
    double weights[R];   /* 0 for a resource that does not count */
    double missing[R];   /* what an instance counts as that gives no amount */
    double units[R];     /* the peers' whole units */
    uint8_t extended[R]; /* whether a resource counts only where the request asks for it */
    int32_t basis, rounding;
    int32_t form;   /* of balanced_allocation */
    int32_t points; /* of requested_to_capacity_ratio */
    double utilization[32], score[32];
} Allocation;

/* Return the weight of a resource for the request. */
static inline double weight_of(const Query *q, const Allocation *p, int r) {
    return p->extended[r] && !(q->amounts[r] > 0) ? 0.0 : p->weights[r];
}

/* Return what the request adds. */
static inline double added_by(const Query *q, const Allocation *p, int r) {
    if (p->basis == BY_USED) return q->expected[r];
    return q->missing[r] ? p->missing[r] : q->amounts[r];
}

/* Return what counts as allocated, without the request; NaN where it is unknown. */
static inline double allocated_of(const Row *m, const More *c, const Allocation *p, int r) {
    if (p->basis == BY_USED) return m->mean[r];
    double allocated = m->allocated[r] + (p->missing[r] > 0 ? p->missing[r] * c->missing[r] : 0.0);
    return p->basis == BY_REQUESTS ? allocated : largest(allocated, m->mean[r]);
}

static inline double whole(double amount, const Allocation *p, int r) {
    return p->rounding ? rint(amount * p->units[r]) : amount;
}

/* Return 100 * part / limit in 0-100, NaN where the limit is 0 or unknown; for whole numbers truncated. */
static inline double percent_of(double part, double limit, int rounding) {
    if (!(limit > 0)) return NAN;
    double percent = least(largest(part * 100.0 / limit, 0.0), 100.0); /* also of a part that no machine can have */
    if (!rounding) return percent;
    double near = rint(percent); /* a quotient just below a whole number is that number: both sides are whole */
    return near * limit == part * 100.0 ? near : trunc(percent);
}

/* Return what is left of a limit in per cent of it; 0 beyond it, and where either is unknown. */
static inline double percent_left(double used, double limit, int rounding) {
    return or_zero(percent_of(used <= limit ? limit - used : 0.0, limit, rounding));
}

/* Put the shares with the request into said. */
static inline void say_shares(const Row *m, const More *c, const Query *q, const Allocation *p, double *said) {
    for (int r = 0; said && r < R; r++) {
        double limit = whole(m->allocatable[r], p, r);
        said[r] = limit > 0 ? whole(allocated_of(m, c, p, r) + added_by(q, p, r), p, r) / limit : NAN;
    }
}

/* Return the mean of the values [R] by weight, over the resources that count on the machine; 0 where none does. */
static inline double mean_by_weight(const double *values, const uint8_t *counts, const Query *q, const Allocation *p,
                                    int cut) {
    double sum = 0.0, total = 0.0;
    for (int r = 0; r < R; r++) {
        double weight = weight_of(q, p, r);
        if (!(weight > 0 && counts[r])) continue;
        sum += values[r] * weight;
        total += weight;
    }
    double mean = total > 0 ? sum / total : 0.0;
    return cut ? floor(mean + 1e-9) : mean;
}

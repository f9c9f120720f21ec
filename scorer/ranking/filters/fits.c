typedef struct {
    double ratio[R];
    double missing[R];      /* what an instance counts as that gives no amount */
    uint8_t sold[R];        /* whether a resource is sold by class */
    int32_t promised_alone; /* usage is not compared */
    int32_t by_class, ratio_columns, plain;
} Fits;

#define FITS_WHYS 9 /* reasons a resource, at most */

enum {
    FITS_CAPACITY = 1,
    FITS_USAGE,
    FITS_LARGER,
    FITS_FULL,
    FITS_OLD,
    FITS_NOTHING,
    FITS_ABOVE,
    FITS_PROD,
    FITS_USED
};

/* Return why a resource is short, 0 where it is not; room: what is left of what may be promised, without what is used. */
static inline int64_t short_of(int r, double amount, double left, double room, double most, double used) {
    if (amount <= 0 || left >= amount) return 0;
    int64_t why = room >= amount ? FITS_USED : FITS_FULL;
    if (isnan(most))
        why = FITS_CAPACITY;
    else if (isnan(left) || isnan(used))
        why = FITS_USAGE;
    else if (amount > most * (1 + ROUNDING))
        why = FITS_LARGER;
    return FITS_WHYS * r + why;
}

/* Return whether all that is asked for is left by the plain rule: of most machines, at a fifth of what follows. */
static inline int left_plain(const Row *m, const Query *q, const Fits *p) {
    int left = p->plain && !m->own_ratio;
    for (int r = 0; r < R; r++) {
        double most = m->allocatable[r] * p->ratio[r], amount = q->amounts[r];
        if (amount <= 0) continue;
        int unused = largest(most, m->allocatable[r]) * (1 + ROUNDING) - m->mean[r] >= amount;
        left &= (most * (1 + ROUNDING) - m->allocated[r] >= amount) & (p->promised_alone | unused);
    }
    return left;
}

/* x: by class what is left, the most, what is used (each R), and whether data is too old; else, with ratio_columns, the
   ratios. */
static inline int64_t fits(const Row *m, const More *c, const Query *q, const Fits *p, const double *x, double *said) {
    if (!said && left_plain(m, q, p)) return 0;
    int64_t found = 0;
    for (int r = 0; r < R; r++) {
        double amount = q->amounts[r] + (q->missing[r] ? p->missing[r] : 0.0);
        if (amount <= 0 && !said) continue;
        double ratio = p->ratio_columns ? x[r] : p->ratio[r];
        if (m->own_ratio && isfinite(c->ratio[r])) ratio = c->ratio[r];
        double most = m->allocatable[r] * ratio;
        double allocated = m->allocated[r] + (p->missing[r] > 0 ? p->missing[r] * c->missing[r] : 0.0);
        double room = most * (1 + ROUNDING) - allocated, left = room;
        if (!p->promised_alone) left = least(left, largest(most, m->allocatable[r]) * (1 + ROUNDING) - m->mean[r]);
        if (said) {
            said[r] = p->promised_alone ? allocated : largest(allocated, m->mean[r]);
            said[R + r] = m->allocated[r];
            said[2 * R + r] = m->allocatable[r];
            said[3 * R + r] = ratio;
            said[4 * R + r] = most;
        }
        if (found) continue;
        if (!p->by_class) {
            found = short_of(r, amount, left, room, most, 0.0);
            continue;
        }
        left = x[r];
        int reclaims = q->priority_class != PROD && p->sold[r];
        double used = reclaims || !p->promised_alone ? x[2 * R + r] : 0.0;
        found = short_of(r, amount, left, p->sold[r] ? left : room, most, used);
        if (found != FITS_WHYS * r + FITS_FULL || !p->sold[r]) continue;
        if (!reclaims)
            found = FITS_WHYS * r + FITS_PROD;
        else
            found = FITS_WHYS * r + (x[3 * R] ? FITS_OLD : x[R + r] <= 0 ? FITS_NOTHING : FITS_ABOVE);
    }
    return found;
}
FILTER(fits, Fits)

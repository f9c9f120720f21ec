/* The standard normal distribution: how far it is above a number, in the mean; and how often. */
#include "row.h"

#define EXCESS_STEPS 2048
#define EXCESS_FAR 8.0

/* Cubics through E[max(0, X - z)] and its slope, for z from 0 to EXCESS_FAR. */
static double excess_table[EXCESS_STEPS + 1][4];

/* The logarithm of the excess: c0 - c1 z (z + c2 + c3 / (z^2 + c4 z + c5)), fitted over 0 to 7; excess right to 8e-9. */
static const double LOGARITHM[6] = {-0.9189385148614617, 0.4840331375308859, 1.0295402451746505,
                                    51.8339105007946,    8.742905762577873,  33.23167856394451};

static void excess_at(double z, double *value, double *slope) {
    const double *c = LOGARITHM;
    double below = z * (z + c[4]) + c[5];
    *value = exp(c[0] - c[1] * z * (z + c[2] + c[3] / below));
    *slope = -*value * c[1] * (2 * z + c[2] + c[3] * (below - z * (2 * z + c[4])) / (below * below));
}

static void make_excess_table(void) {
    double h = EXCESS_FAR / EXCESS_STEPS, a, b, slope_a, slope_b;
    for (int k = 0; k < EXCESS_STEPS; k++) {
        excess_at(k * h, &a, &slope_a);
        excess_at((k + 1) * h, &b, &slope_b);
        slope_a *= h;
        slope_b *= h;
        double cubic[4] = {a, slope_a, 3 * (b - a) - 2 * slope_a - slope_b, 2 * (a - b) + slope_a + slope_b};
        for (int j = 0; j < 4; j++) excess_table[k][j] = cubic[j];
    }
}

/* Return E[max(0, X - z)] of a standard normal X: from the table, which needs neither exp nor a division. */
static inline double excess(double z) {
    double far = fabs(z), at = less_of(far * (EXCESS_STEPS / EXCESS_FAR), EXCESS_STEPS);
    int k = (int)at;
    double u = at - k;
    const double *c = excess_table[k];
    return c[0] + u * (c[1] + u * (c[2] + u * c[3])) + 0.5 * (far - z);
}

/* Return the probability of more than z deviations above the mean. */
static inline double upper_tail(double z) { return 0.5 * erfc(z * M_SQRT1_2); }

/* Return the excess of one number for an explanation: right far out in the tail, too, where the table is not. */
static inline double excess_told(double z) {
    return fmax(exp(-0.5 * z * z) / sqrt(2.0 * M_PI) - z * upper_tail(z), 0.0);
}

/* How much longer a prediction takes when its data and code are no longer in the caches.
 *
 *   cmake -S . -B build/board && cmake --build build/board -j
 *   cc -O2 benchmarks/first_call.c -Icore/include -Lbuild/board -Wl,-rpath,build/board -lbipointnet -lm -o build/first_call
 *   build/first_call FILE > benchmarks/results/first-call.json
 *
 * Prints medians of 300 calls on one thread, for points on a sphere: one call after another, and each after 32 MB of other
 * memory were written. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "bipointnet.h"

enum { POINTS = 1024, CALLS = 300, OTHER = 32 << 20 };

static int ascending(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double microseconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

static double median(const bipointnet_model *model, const float *cloud, float *logits, volatile char *other) {
  static double times[CALLS];
  for (int i = 0; i < CALLS; ++i) {
    for (size_t at = 0; other != NULL && at < OTHER; at += 64) ++other[at];
    const double started = microseconds();
    if (bipointnet_predict(model, cloud, 1, POINTS, 1, 1, logits) != 0) {
      fprintf(stderr, "%s\n", bipointnet_error());
      exit(2);
    }
    times[i] = microseconds() - started;
  }
  qsort(times, CALLS, sizeof times[0], ascending);
  return times[CALLS / 2];
}

int main(int argc, char **argv) {
  bipointnet_model *model;
  if (argc != 2) {
    fprintf(stderr, "usage: first_call FILE\n");
    return 2;
  }
  if (bipointnet_load(argv[1], &model) != 0) {
    fprintf(stderr, "%s\n", bipointnet_error());
    return 2;
  }
  static float cloud[POINTS * 3];
  for (int i = 0; i < POINTS; ++i) { /* the sunflower spiral */
    const double z = 1 - (2 * i + 1.0) / POINTS, angle = 2.399963229728653 * i, r = sqrt(1 - z * z);
    cloud[3 * i] = (float)(r * cos(angle));
    cloud[3 * i + 1] = (float)(r * sin(angle));
    cloud[3 * i + 2] = (float)z;
  }
  float *logits = malloc(bipointnet_classes(model) * sizeof *logits);
  char *other = calloc(OTHER, 1);
  if (logits == NULL || other == NULL) return 2;
  median(model, cloud, logits, NULL);
  const double warm = median(model, cloud, logits, NULL), cold = median(model, cloud, logits, other);
  printf("{\"points\": %d, \"isa\": \"%s\", \"warm_us\": %.1f, \"cold_us\": %.1f, \"ratio\": %.2f}\n", POINTS,
         bipointnet_isa(), warm, cold, cold / warm);
  free(other);
  free(logits);
  bipointnet_free(model);
  return 0;
}

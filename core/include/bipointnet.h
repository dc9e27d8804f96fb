/* BiPointNet: runs packed 1-bit point-cloud networks. One header, no dependency.
 *
 * Every function that can fail returns a status; bipointnet_error() then says what happened, in one sentence, for the
 * calling thread. A model never changes after it was loaded and may be used from many threads at once.
 */
#ifndef BIPOINTNET_H
#define BIPOINTNET_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

typedef struct bipointnet_model bipointnet_model;

typedef enum {
    BIPOINTNET_OK = 0,
    BIPOINTNET_ERROR_FILE = 1,   /* a file cannot be read */
    BIPOINTNET_ERROR_FORMAT = 2, /* bytes that are no packed model */
    BIPOINTNET_ERROR_INPUT = 3,  /* a cloud or an argument that cannot be used */
    BIPOINTNET_ERROR_ISA = 4,    /* BIPOINTNET_ISA names an instruction set that is unknown or not here */
    BIPOINTNET_ERROR_MEMORY = 5
} bipointnet_status;

/* Read a packed model from a file, or from bytes, which may be freed afterwards. On failure *model is NULL. */
bipointnet_status bipointnet_load(const char *path, bipointnet_model **model);
bipointnet_status bipointnet_load_bytes(const void *bytes, size_t size, bipointnet_model **model);
void bipointnet_free(bipointnet_model *model);

/* Facts of a model; 0 or NULL for no model. The strings live as long as the model. */
size_t bipointnet_channels(const bipointnet_model *model);
size_t bipointnet_classes(const bipointnet_model *model);
const char *bipointnet_class_name(const bipointnet_model *model, size_t index); /* NULL past the last class */
const char *bipointnet_manifest(const bipointnet_model *model);                /* JSON */
int bipointnet_segments(const bipointnet_model *model); /* 1 where it names every point, 0 where it names the cloud */
int bipointnet_normalizes(const bipointnet_model *model); /* 0 where it takes numbers as they are, like blocks of rooms */

/* What a cloud can be, for a model that must be told: 0 categories, or the names of their numbers from 0 on. */
size_t bipointnet_categories(const bipointnet_model *model);
const char *bipointnet_category_name(const bipointnet_model *model, size_t index); /* NULL past the last category */

/* Logits of `clouds` clouds of `points` points each: float32, cloud by cloud, point by point, `channels` numbers a
 * point, xyz first. `logits` takes clouds x classes numbers. raw: nonzero takes the numbers as they are; zero normalises
 * each cloud as the manifest says. Numbers far from 0, like map coordinates, should be shifted near it before they
 * become float32, or the shape is lost. threads: at least 1; more share the clouds, or the points of a single cloud. */
bipointnet_status bipointnet_predict(const bipointnet_model *model, const float *cloud, size_t clouds, size_t points,
                                     int raw, unsigned threads, float *logits);

/* The same for every point of one cloud, with a model that segments. category: the number of the cloud's category, -1
 * for a model without categories. `labels` takes `points` numbers, the class with the largest logit of each point, the
 * first of equal ones, among those that the category has; `logits` takes points x classes numbers, point by point.
 * Either may be NULL, not both. */
bipointnet_status bipointnet_segment(const bipointnet_model *model, const float *cloud, size_t points, int category,
                                     int raw, unsigned threads, int *labels, float *logits);

/* What went wrong in this thread's last call that failed. */
const char *bipointnet_error(void);

/* The instruction set in use: "portable", "avx2", "avx512" or "neon"; NULL where BIPOINTNET_ISA is wrong. */
const char *bipointnet_isa(void);

const char *bipointnet_version(void);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif

#endif

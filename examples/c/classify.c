/* Names the object in a point cloud with a packed model:  classify MODEL CLOUD
 *
 * CLOUD is text, one point a line as three numbers "x y z". A float keeps 7 digits: where yours has map coordinates
 * (500000.25 5400000.5 ...), subtract a corner of the cloud first. README.md beside this file says how to build it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "bipointnet.h"

static void fail(const char *what, const char *why) {
    fprintf(stderr, "error: %s: %s\n", what, why);
    exit(2);
}

/* The points of a file as one array, x y z x y z ..., which the caller frees. */
static float *read_points(const char *path, size_t *points) {
    FILE *file = fopen(path, "r");
    if (file == NULL) fail(path, "cannot be opened");
    float *cloud = NULL, x, y, z;
    size_t count = 0, room = 0;
    char line[256], more;
    while (fgets(line, sizeof line, file) != NULL) {
        const int found = sscanf(line, "%f %f %f %c", &x, &y, &z, &more); /* a fourth one is something behind them */
        if (found == EOF) continue; /* an empty line */
        if (found != 3) fail(path, "a line that is not three numbers");
        if (count == room) { /* the array is full: double it */
            room = room == 0 ? 1024 : 2 * room;
            cloud = realloc(cloud, room * 3 * sizeof *cloud);
            if (cloud == NULL) fail(path, "not enough memory");
        }
        cloud[3 * count] = x;
        cloud[3 * count + 1] = y;
        cloud[3 * count + 2] = z;
        ++count;
    }
    if (ferror(file)) fail(path, "cannot be read to its end");
    fclose(file);
    *points = count;
    return cloud;
}

int main(int argc, char **argv) {
    if (argc != 3) fail("usage", "classify MODEL CLOUD");

    /* Load the model. Whatever fails in the library, bipointnet_error() says why in one sentence. */
    bipointnet_model *model = NULL;
    if (bipointnet_load(argv[1], &model) != BIPOINTNET_OK) fail("model", bipointnet_error());
    if (bipointnet_channels(model) != 3) fail(argv[1], "reads more than x y z, all that this example has");

    size_t points = 0;
    float *cloud = read_points(argv[2], &points);
    if (cloud == NULL) fail(argv[2], "no points");

    /* One cloud, normalised as in training (raw is 0), on one thread. A logit a class: the larger, the likelier. */
    const size_t classes = bipointnet_classes(model);
    float *logits = malloc(classes * sizeof *logits);
    if (logits == NULL) fail(argv[2], "not enough memory");
    if (bipointnet_predict(model, cloud, 1, points, 0, 1, logits) != BIPOINTNET_OK) fail(argv[2], bipointnet_error());

    size_t best = 0;
    for (size_t i = 1; i < classes; ++i) {
        if (logits[i] > logits[best]) best = i;
    }
    /* Softmax makes probabilities of logits: exp(logit), divided by the sum over all classes. */
    double sum = 0;
    for (size_t i = 0; i < classes; ++i) sum += exp((double)logits[i] - (double)logits[best]);
    printf("%s  %.1f %%\n", bipointnet_class_name(model, best), 100 / sum);

    free(logits);
    free(cloud);
    bipointnet_free(model);
    return 0;
}

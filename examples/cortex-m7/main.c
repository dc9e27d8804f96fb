/* Classifies a cloud with a packed model in flash, and prints the class and the logits. Nothing here is special to a
 * board: the same program runs on any machine. model.h is written by `bipointnet export MODEL --c-array -o model.h`. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "bipointnet.h"
#include "model.h"

enum { POINTS = 1024 };

static float cloud[3 * POINTS];

static void fail(const char *what) {
    printf("error: %s: %s\n", what, bipointnet_error());
    exit(2);
}

/* A number from 0 to `end` - 1, the same on every machine. */
static int32_t draw(int32_t end) {
    static uint32_t state = 1;
    state = state * 1664525u + 1013904223u;
    return (int32_t)((uint64_t)state * (uint32_t)end >> 32);
}

/* A table, y up: a top of 1000 x 40 x 1000 mm on four legs. On a robot, this is where a sensor writes. */
static void make_cloud(void) {
    for (int i = 0; i < POINTS; ++i) {
        const int leg = i % 3 == 0, right = draw(2), back = draw(2);
        const int32_t x = leg ? right * 940 + draw(60) : draw(1000);
        const int32_t y = leg ? draw(700) : 700 + draw(40);
        const int32_t z = leg ? back * 940 + draw(60) : draw(1000);
        cloud[3 * i] = (float)x;
        cloud[3 * i + 1] = (float)y;
        cloud[3 * i + 2] = (float)z;
    }
}

int main(void) {
    bipointnet_model *model = NULL;
    if (bipointnet_load_bytes(model_bpn, model_bpn_size, &model) != BIPOINTNET_OK) fail("model");
    const size_t classes = bipointnet_classes(model);
    float *logits = malloc(classes * sizeof *logits);
    if (logits == NULL) fail("not enough memory");
    make_cloud();
    if (bipointnet_predict(model, cloud, 1, POINTS, 0, 1, logits) != BIPOINTNET_OK) fail("cloud");

    size_t best = 0;
    for (size_t i = 1; i < classes; ++i) {
        if (logits[i] > logits[best]) best = i;
    }
    printf("%s\n", bipointnet_class_name(model, best));
    for (size_t i = 0; i < classes; ++i) { /* nine digits identify a float */
        printf("%s %.9g\n", bipointnet_class_name(model, i), (double)logits[i]);
    }
    free(logits);
    bipointnet_free(model);
    return 0;
}

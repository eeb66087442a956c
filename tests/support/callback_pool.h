/* Pools of a caller, made by nabla_pool_from_callbacks. */
#ifndef NABLA_TESTS_SUPPORT_CALLBACK_POOL_H
#define NABLA_TESTS_SUPPORT_CALLBACK_POOL_H

#include "nabla/pool.h"

typedef enum callback_order {
  CALLBACK_IN_ORDER, /* one behind another, on the calling thread        */
  CALLBACK_BACKWARDS,
  CALLBACK_THREADS, /* a thread each, made for the region               */
  CALLBACK_TWICE,   /* each worker is called twice                      */
  CALLBACK_HALF,    /* every second worker is left out                  */
  CALLBACK_ORDERS
} callback_order;

/* A pool of `workers` that calls them in that order; aborts without memory. */
nabla_pool *callback_pool_create(callback_order order, uint32_t workers);

/* The regions that pools of this file have run. */
unsigned callback_pool_regions(void);

#endif

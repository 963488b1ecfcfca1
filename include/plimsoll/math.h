// Functions and frontiers that problems and answers are made of.
#pragma once

#include "plimsoll/math/frontier.h"
#include "plimsoll/math/infimal_convolution.h"
#include "plimsoll/math/piecewise_linear.h"

// A number of a launch that nobody else has (control::Hello). Errors: Error where the system gives no random bytes. Thread
// rule: any thread.
#pragma once

#include <string>

#include "athanor/base/namespaces.h"

namespace athanor::launch::keeper {

std::string random_job_number();  // control::kJobDigits of them, hexadecimal

}  // namespace athanor::launch::keeper

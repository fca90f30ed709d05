// What ThreadSanitizer must not report in tests: compiled into every test program, empty in other builds.
#if defined(__SANITIZE_THREAD__)

// The distribution's Abseil is not instrumented. absl::Status counts references to its message: up in its header, which
// TSan sees, down in its library, which TSan does not see, so the last owner's delete looks like a race with the
// others.
extern "C" const char* __tsan_default_suppressions() {  // NOLINT(bugprone-reserved-identifier): the sanitizer's name
  return "race:absl::*::Status::Unref\n"                // 20220623
         "race:absl::*::StatusRep::Unref\n";            // 20240722
}

#endif

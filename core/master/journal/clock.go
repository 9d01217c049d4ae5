package journal

import "github.com/mooncake-go/mooncake/core/internal/boottime"

// Instant is a moment in a time that goes on while the process is stopped and while the machine sleeps.
type Instant = boottime.Instant

// Now returns the present instant. It is a system call.
func Now() Instant { return boottime.Now() }

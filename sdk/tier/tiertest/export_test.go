package tiertest

import "time"

// WithSettle is how long something may be left after a stop: for what leaks for certain.
func WithSettle(d time.Duration) Option { return func(o *options) { o.settle = d } }

package rail

import "time"

// Wait waits for ch, at most for limit, and reports whether it was closed.
func Wait(ch <-chan struct{}, limit time.Duration) bool {
	select {
	case <-ch:
		return true
	default:
	}
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-ch:
		return true
	case <-t.C:
		return false
	}
}

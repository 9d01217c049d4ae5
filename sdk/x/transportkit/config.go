package transportkit

import (
	"fmt"
	"time"

	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// Bound is a setting with the least and the most that it may be.
type Bound struct {
	Name             string
	Value, Low, High int64
}

// CheckBounds returns an error for the first setting that is out of its bounds.
func CheckBounds(bounds ...Bound) error {
	for _, b := range bounds {
		if b.Value < b.Low || b.Value > b.High {
			return fmt.Errorf("%s is %d, must be %d to %d", b.Name, b.Value, b.Low, b.High)
		}
	}
	return nil
}

// Timeout is a setting that is a length of time, at least Low.
type Timeout struct {
	Name  string
	Value plugin.Duration
	Low   time.Duration // 0 for 1 ms
}

// CheckTimeouts returns an error for the first setting that is too short, or longer than a day.
func CheckTimeouts(timeouts ...Timeout) error {
	for _, t := range timeouts {
		low := max(t.Low, time.Millisecond)
		if time.Duration(t.Value) < low || time.Duration(t.Value) > 24*time.Hour {
			return fmt.Errorf("%s is %s, must be %s to 24h", t.Name, t.Value, low)
		}
	}
	return nil
}

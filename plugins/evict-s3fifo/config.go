package s3fifo

import "fmt"

// Config holds the settings of the policy.
type Config struct {
	// SmallRatio is the share of the ranked bytes that the small queue may have before
	// objects are taken from it; 0.1 by default, 0.01 to 0.9.
	SmallRatio float64 `json:"small_ratio"`
	// GhostRatio is how many evicted objects are remembered, as a multiple of the number
	// of objects there are; 0.9 by default, 0 to 4. 0 remembers none.
	GhostRatio float64 `json:"ghost_ratio"`
	// PromoteReads is how many reads in the small queue bring an object into the main
	// queue; 1 by default, 1 to 3.
	PromoteReads int `json:"promote_reads"`
}

// DefaultConfig returns the values of the paper, with one read where it has two: pages of a
// prompt that come back at all come back once, as a rule.
func DefaultConfig() *Config { return &Config{SmallRatio: 0.1, GhostRatio: 0.9, PromoteReads: 1} }

// Validate implements plugin.Config. The conditions are put so that they refuse NaN.
func (c *Config) Validate() error {
	switch {
	case !(c.SmallRatio >= 0.01 && c.SmallRatio <= 0.9):
		return fmt.Errorf("small_ratio is %v, allowed are 0.01 to 0.9", c.SmallRatio)
	case !(c.GhostRatio >= 0 && c.GhostRatio <= 4):
		return fmt.Errorf("ghost_ratio is %v, allowed are 0 to 4", c.GhostRatio)
	case c.PromoteReads < 1 || c.PromoteReads > maxReads:
		return fmt.Errorf("promote_reads is %d, allowed are 1 to %d", c.PromoteReads, maxReads)
	}
	return nil
}

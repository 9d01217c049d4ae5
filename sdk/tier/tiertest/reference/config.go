package reference

import "fmt"

// Config is the configuration of a tier.
type Config struct {
	// Capacity is that of a volume of Factory, in bytes.
	Capacity uint64 `json:"capacity"`
	// Window is how many operations the tier accepts before their completions are reaped.
	Window int `json:"window"`
	// Backing is the storage of a tier of Surviving; without one, the tier gets an empty one.
	Backing *Backing `json:"-"`
}

// Validate implements plugin.Config.
func (c *Config) Validate() error {
	if c.Window < 1 {
		return fmt.Errorf("window is %d, must be at least 1 operation", c.Window)
	}
	return nil
}

func defaults() *Config { return &Config{Capacity: 8 << 20, Window: 256} }

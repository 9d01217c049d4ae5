package arena

import "github.com/mooncake-go/mooncake/sdk/alloc"

// Factory returns the factory of alloc/arena.
func Factory() alloc.Factory {
	return alloc.Define(manifest(), DefaultConfig,
		func(c *Config) (alloc.Allocator, error) {
			if err := c.Validate(); err != nil {
				return nil, err
			}
			return newAllocator(*c), nil
		})
}

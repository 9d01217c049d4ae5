//go:build mooncake_no_evict_s3fifo

package builtin

import "github.com/mooncake-go/mooncake/sdk/plugin"

func evictS3FIFO() []plugin.Factory { return nil }

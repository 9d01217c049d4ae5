//go:build !mooncake_no_evict_s3fifo

package builtin

import (
	s3fifo "github.com/mooncake-go/mooncake/plugins/evict-s3fifo"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

func evictS3FIFO() []plugin.Factory { return []plugin.Factory{s3fifo.Factory()} }

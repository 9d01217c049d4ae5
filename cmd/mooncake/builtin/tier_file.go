//go:build !mooncake_no_tier_file

package builtin

import (
	file "github.com/mooncake-go/mooncake/plugins/tier-file"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

func tierFile() []plugin.Factory { return []plugin.Factory{file.Factory()} }

//go:build mooncake_no_tier_file

package builtin

import "github.com/mooncake-go/mooncake/sdk/plugin"

func tierFile() []plugin.Factory { return nil }

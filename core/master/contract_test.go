package master_test

import (
	"github.com/mooncake-go/mooncake/core/api/rest"
	"github.com/mooncake-go/mooncake/core/master"
	"github.com/mooncake-go/mooncake/core/store"
)

var (
	_ store.Master = (*master.Service)(nil)
	_ rest.Master  = (*master.Service)(nil)
)

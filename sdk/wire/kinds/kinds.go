// Package kinds lists the kinds of plugins. It is the one place that names them all for the
// wire: a new kind is a package beside its contract and a line in All.
package kinds

import (
	"github.com/mooncake-go/mooncake/sdk/alloc/allocwire"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/evict/evictwire"
	"github.com/mooncake-go/mooncake/sdk/tier/tierwire"
	"github.com/mooncake-go/mooncake/sdk/transport/transportwire"
	"github.com/mooncake-go/mooncake/sdk/wire"
)

// All returns every kind.
func All() []wire.Descriptor {
	return []wire.Descriptor{
		transportwire.Kind().Descriptor(),
		allocwire.Kind().Descriptor(),
		evictwire.Kind().Descriptor(),
		tierwire.Kind().Descriptor(),
	}
}

// Of returns the kind of that name; NotSupported for an unknown one.
func Of(name string) (wire.Descriptor, error) {
	for _, k := range All() {
		if k.Name == name {
			return k, nil
		}
	}
	return wire.Descriptor{}, errs.New(errs.NotSupported, "", "plugins of kind %s cannot run in a process of their own", name)
}

// API lists the contract versions of a kind, nil for an unknown one.
func API(name string) []uint {
	k, _ := Of(name)
	return k.API
}

// Package guard is a store.Master for the calls of other processes: each may name only clients of its own
// identity and, if its identity has a tenant, only that one. It tells the audit of what they changed.
//
// Which calls a role may make is decided before, where they arrive.
package guard

import (
	"context"

	"github.com/mooncake-go/mooncake/core/internal/access"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
)

// Options are the settings of a Master.
type Options struct {
	// Control decides and tells; nil tells nothing.
	Control *access.Control
	// OneTenant says that the master serves one tenant only.
	OneTenant bool
	// Adopt gives the clients of upstream's, which make their ids themselves, ids of the identity of their
	// connection.
	Adopt bool
}

// Master is a store.Master for the calls of other processes. It refuses with IllegalClient.
type Master struct {
	store.Master
	o        Options
	assigned assigned
}

var _ store.Master = (*Master)(nil)

// New returns a Master over m.
func New(m store.Master, o Options) *Master { return &Master{Master: m, o: o} }

// call returns a row of the table of calls.
func call(name string) *access.Call { return access.Find(access.MasterService, name) }

// own returns the client whose call it is.
func (m *Master) own(ctx context.Context, c *access.Call, client model.ClientID) (model.ClientID, error) {
	if m.o.Adopt {
		client = access.Adopt(ctx, client)
	}
	return client, m.o.Control.Own(ctx, c, client, false)
}

// writer returns the caller of a call that changes what belongs to a client.
func (m *Master) writer(ctx context.Context, c *access.Call, who model.Caller) (model.Caller, error) {
	var err error
	if who.Client, err = m.own(ctx, c, who.Client); err != nil {
		return who, err
	}
	err = m.tenant(ctx, c, &who)
	return who, err
}

// user returns the caller of a call on objects, which names a client or none.
func (m *Master) user(ctx context.Context, c *access.Call, who model.Caller) (model.Caller, error) {
	if m.o.Adopt {
		who.Client = access.Adopt(ctx, who.Client)
	}
	if err := m.o.Control.Own(ctx, c, who.Client, true); err != nil {
		return who, err
	}
	err := m.tenant(ctx, c, &who)
	return who, err
}

// tenant sets the tenant of a caller.
func (m *Master) tenant(ctx context.Context, c *access.Call, who *model.Caller) (err error) {
	if m.o.OneTenant {
		if err := m.o.Control.OneTenant(ctx, c); err != nil {
			return err
		}
	}
	who.Tenant, err = m.o.Control.Tenant(ctx, c, who.Tenant)
	return err
}

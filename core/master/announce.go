package master

import (
	"github.com/mooncake-go/mooncake/core/master/objects"
	"github.com/mooncake-go/mooncake/core/master/quota"
	"github.com/mooncake-go/mooncake/core/model"
)

// Announcer is told which objects can be read and which no longer can. Its methods are
// called from many goroutines at once, without a lock of the object table, but sometimes
// inside the pool's gate: they must not block. group is empty for none.
//
// What is said last of a key is true. Before that something may be said twice, or be
// overtaken, when calls on one key run at the same time.
type Announcer interface {
	Stored(tenant model.Tenant, key model.Key, group string)
	Removed(tenant model.Tenant, key model.Key, group string)
	Stats() model.KVEventStats
}

// KVEvents says what became of what was announced.
func (s *Service) KVEvents() model.KVEventStats {
	if s.announcer == nil {
		return model.KVEventStats{}
	}
	return s.announcer.Stats()
}

// announceStored tells of an object whose put ended.
func (s *Service) announceStored(name string) {
	if s.announcer == nil {
		return
	}
	// What took it away meanwhile has told of that itself.
	if group, readable := s.table.Current(name); readable {
		s.announce(name, group, true)
	}
}

// announceGone tells of what left the table, as far as it could be read.
func (s *Service) announceGone(g *objects.Gone) {
	if s.announcer != nil && g.Readable {
		s.announce(g.Key, g.Group, false)
	}
}

// announceOverwritten tells of an object that cannot be read while it is written anew.
func (s *Service) announceOverwritten(name, group string) {
	if s.announcer != nil {
		s.announce(name, group, false)
	}
}

// maxAnnouncements bounds what one change says. More than two take others who change the
// same key again and again in between, and they announce as well.
const maxAnnouncements = 8

// announce says what became of a key. Another change of it may be announced before this one
// although it happened later. So announce looks again afterwards and says what is true by then.
// The call that changed the key last finds it as it left it, and no later announcement
// contradicts that for long.
func (s *Service) announce(name, group string, readable bool) {
	for range maxAnnouncements {
		s.say(name, group, readable)
		now, is := s.table.Current(name)
		if is == readable {
			return
		}
		readable = is
		if is {
			group = now
		}
	}
}

func (s *Service) say(name, group string, readable bool) {
	tenant, key := model.DefaultTenant, name
	if s.tenants != nil {
		if t, k, ok := quota.Split(name); ok {
			tenant, key = t, k
		}
		if _, g, ok := quota.Split(group); ok {
			group = g
		}
	}
	if readable {
		s.announcer.Stored(tenant, key, group)
	} else {
		s.announcer.Removed(tenant, key, group)
	}
}

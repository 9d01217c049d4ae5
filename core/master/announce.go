package master

import (
	"github.com/mooncake-go/mooncake/core/master/objects"
	"github.com/mooncake-go/mooncake/core/master/segments"
	"github.com/mooncake-go/mooncake/core/model"
)

// Announcer receives which objects have become readable and which no longer are. Many goroutines
// call its methods at once, without a lock of the object table but sometimes inside the pool's
// gate, so the methods must not block. group is empty for an object without a group.
//
// The last announcement of a key is true. Earlier ones may be repeated or arrive out of order if
// several calls change one key at the same time.
type Announcer interface {
	Stored(tenant model.Tenant, key model.Key, group string)
	Removed(tenant model.Tenant, key model.Key, group string)
	Stats() model.KVEventStats
}

// KVEvents describes the fate of the announcements.
func (s *Service) KVEvents() model.KVEventStats {
	if s.announcer == nil {
		return model.KVEventStats{}
	}
	return s.announcer.Stats()
}

// announceStored announces an object whose put has ended.
func (s *Service) announceStored(name string) {
	if s.announcer == nil {
		return
	}
	// The call that removed it meanwhile announces that itself.
	if group, readable := s.table.Current(name); readable {
		s.announce(name, group, true)
	}
}

// announceGone announces the objects that left the table and had been readable.
func (s *Service) announceGone(g *objects.Gone) {
	if s.announcer != nil && g.Readable {
		s.announce(g.Key, g.Group, false)
	}
}

// announceLying announces what lies in a segment that became absent or returned.
func (s *Service) announceLying(m *segments.Segment) {
	if s.announcer == nil {
		return
	}
	var lying []objects.Member
	for at, more := objects.Cursor(0), true; more; more = at != 0 {
		lying, at = s.table.Lying(at, m, lying[:0])
		for _, o := range lying {
			_, readable := s.table.Current(o.Key)
			s.announce(o.Key, o.Group, readable)
		}
	}
}

// announceOverwritten announces an object that is not readable while a client overwrites it.
func (s *Service) announceOverwritten(name, group string) {
	if s.announcer != nil {
		s.announce(name, group, false)
	}
}

// maxAnnouncements bounds the announcements of one change. More than two happen only if other calls
// keep changing the same key meanwhile, and those calls announce it as well.
const maxAnnouncements = 8

// announce announces the state of a key. A later change of the key may be announced before this
// one, so announce checks the key again afterwards and announces its new state. The call that made
// the last change finds the key as it left it, so the last announcement is soon the true one.
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
		if t, k, ok := model.SplitKey(name); ok {
			tenant, key = t, k
		}
		if _, g, ok := model.SplitKey(group); ok {
			group = g
		}
	}
	if readable {
		s.announcer.Stored(tenant, key, group)
	} else {
		s.announcer.Removed(tenant, key, group)
	}
}

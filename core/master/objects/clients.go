package objects

import (
	"sync"

	"github.com/mooncake-go/mooncake/core/model"
)

// maxNumbered bounds the clients that have a number.
const maxNumbered = 1 << 20

// clients gives clients small numbers, so that each object can name two of them in eight
// bytes. Number 0 is nobody, and everybody who comes when all numbers are given.
type clients struct {
	mu      *sync.RWMutex
	numbers map[model.ClientID]uint32
	ids     []model.ClientID
}

func newClients() clients {
	return clients{mu: &sync.RWMutex{}, numbers: map[model.ClientID]uint32{}, ids: make([]model.ClientID, 1)}
}

func (c *clients) number(id model.ClientID) uint32 {
	if id.IsZero() {
		return 0
	}
	c.mu.RLock()
	n, ok := c.numbers[id]
	c.mu.RUnlock()
	if ok {
		return n
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if n, ok = c.numbers[id]; ok || len(c.ids) >= maxNumbered {
		return n
	}
	n = uint32(len(c.ids))
	c.ids = append(c.ids, id)
	c.numbers[id] = n
	return n
}

func (c *clients) id(number uint32) model.ClientID {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.ids[number]
}

// Who numbers a client once for all items of a call.
func (t *Table) Who(id model.ClientID) Client { return Client{t.clients.number(id)} }

// Client is a client as the table names it.
type Client struct{ number uint32 }

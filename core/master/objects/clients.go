package objects

import (
	"sync"

	"github.com/mooncake-go/mooncake/core/master/segments"
	"github.com/mooncake-go/mooncake/core/model"
)

// maxNumbered bounds the clients that have a number.
const maxNumbered = 1 << clientBits

// clients gives clients small numbers, so that each object can name two of them in eight bytes:
// its writer and its last reader. Number 0 means no client, or any client that arrives after all
// numbers are assigned. The whole ID tells which client may end a put or a copy.
type clients struct {
	mu      *sync.RWMutex
	most    int
	numbers map[model.ClientID]uint32
	ids     []model.ClientID
}

func newClients() clients {
	return clients{mu: &sync.RWMutex{}, most: maxNumbered, numbers: map[model.ClientID]uint32{}, ids: make([]model.ClientID, 1)}
}

// known returns the number of a client, or 0 if it has none.
func (c *clients) known(id model.ClientID) uint32 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.numbers[id]
}

// number is like known, but assigns a number to a client that has none.
func (c *clients) number(id model.ClientID) uint32 {
	if n := c.known(id); n != 0 || id.IsZero() {
		return n
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	n, ok := c.numbers[id]
	if ok || len(c.ids) >= c.most {
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

// AnyClient stands for all clients in a call of Clear.
var AnyClient = Client{number: maxNumbered}

// Remember returns a Client that the table remembers. Call it once for all items of a call, for a
// writer or for a reader that the master knows.
func (t *Table) Remember(id model.ClientID) Client {
	return Client{id: id, number: t.clients.number(id)}
}

// Known returns a Client that the table need not remember.
func (t *Table) Known(id model.ClientID) Client { return Client{id: id, number: t.clients.known(id)} }

// Client is a client as the table names it.
type Client struct {
	id     model.ClientID
	number uint32
	// account is what its puts occupy, nil where that was not asked for.
	account *segments.Writer
}

// Writer is Remember for a client that puts, with its account, which Writers.Leave takes back.
func (t *Table) Writer(id model.ClientID) (Client, *segments.Writer) {
	c := t.Remember(id)
	c.account = t.Writers.Enter(id)
	return c, c.account
}

// is reports whether a number is surely this client's.
func (c Client) is(number uint32) bool { return number != 0 && number == c.number }

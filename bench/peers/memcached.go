package peers

import (
	"context"
	"fmt"
	"strconv"

	"github.com/mooncake-go/mooncake/bench/drive"
)

// MemcachedName names it in results.
const MemcachedName = "memcached"

// Memcached starts a memcached that takes objects of 1 MiB and has room for all of them.
func (s *Scope) Memcached(ctx context.Context) (*KeyValue, error) {
	return s.keyValue(ctx, MemcachedName, func(port int) []string {
		return []string{"-l", "127.0.0.1", "-p", strconv.Itoa(port), "-U", "0", "-m", "2048", "-I", "4m", "-u", "nobody"}
	}, func(w wire) drive.KeyValue { return &memcachedConn{w} })
}

// memcachedConn speaks the text protocol, one request at a time.
type memcachedConn struct{ wire }

func (c *memcachedConn) Close() error { return c.conn.Close() }

func (c *memcachedConn) Set(key string, value []byte) error {
	c.head = fmt.Appendf(c.head[:0], "set %s 0 0 %d\r\n", key, len(value))
	if err := c.send(c.head, value, []byte("\r\n")); err != nil {
		return err
	}
	return c.expect("STORED")
}

func (c *memcachedConn) Get(key string, dst []byte) error {
	c.head = fmt.Appendf(c.head[:0], "get %s\r\n", key)
	if err := c.send(c.head); err != nil {
		return err
	}
	if err := c.expect(fmt.Sprintf("VALUE %s 0 %d", key, len(dst))); err != nil {
		return err
	}
	if err := c.value(dst); err != nil {
		return err
	}
	return c.expect("END")
}

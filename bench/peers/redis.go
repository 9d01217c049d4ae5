package peers

import (
	"context"
	"fmt"
	"strconv"

	"github.com/mooncake-go/mooncake/bench/drive"
)

// RedisName names it in results.
const RedisName = "redis-server"

// Redis starts a redis-server that keeps everything in memory.
func (s *Scope) Redis(ctx context.Context) (*KeyValue, error) {
	return s.keyValue(ctx, RedisName, func(port int) []string {
		return []string{"--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--save", "", "--appendonly", "no", "--dir", s.env.Folder}
	}, func(w wire) drive.KeyValue { return &redisConn{w} })
}

// redisConn speaks RESP, one request at a time.
type redisConn struct{ wire }

func (c *redisConn) Close() error { return c.conn.Close() }

func (c *redisConn) Set(key string, value []byte) error {
	c.head = fmt.Appendf(c.head[:0], "*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n", len(key), key, len(value))
	if err := c.send(c.head, value, []byte("\r\n")); err != nil {
		return err
	}
	return c.expect("+OK")
}

func (c *redisConn) Get(key string, dst []byte) error {
	c.head = fmt.Appendf(c.head[:0], "*2\r\n$3\r\nGET\r\n$%d\r\n%s\r\n", len(key), key)
	if err := c.send(c.head); err != nil {
		return err
	}
	if err := c.expect("$" + strconv.Itoa(len(dst))); err != nil {
		return err
	}
	return c.value(dst)
}

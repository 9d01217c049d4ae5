package competitors

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/mooncake-go/mooncake/bench/drivers"
	"github.com/mooncake-go/mooncake/core/bench/cluster"
)

// KeyValue is a running server of keys and values, and a way to have jobs done on it.
type KeyValue struct {
	Name   string
	worker *drivers.KeyValues
	proc   *cluster.Proc
}

// Do has one job done; a connection that is silent for jobLimit ends it.
func (k *KeyValue) Do(_ context.Context, j drivers.Job) (drivers.Answer, error) {
	j.PIDs = []int{k.proc.PID()} // The client is this process.
	return k.worker.Do(j)
}

// keyValue starts a server. args makes its flags from the port.
func (s *Scope) keyValue(ctx context.Context, program string, args func(port int) []string, wrap func(wire) drivers.KeyValue) (*KeyValue, error) {
	path, err := installed(program)
	if err != nil {
		return nil, err
	}
	ports, err := cluster.FreePorts(1)
	if err != nil {
		return nil, err
	}
	p, err := s.start(program, -1, nil, path, args(ports[0])...)
	if err != nil {
		return nil, err
	}
	if err := listening(ctx, p, ports[0]); err != nil {
		return nil, err
	}
	worker, err := drivers.NewKeyValues(func() (drivers.KeyValue, error) {
		conn, err := (&net.Dialer{Timeout: startLimit}).DialContext(ctx, "tcp", local(ports[0]))
		if err != nil {
			return nil, err
		}
		// Bounds the job as a whole: no deadline is moved while it is measured.
		if err := conn.SetDeadline(time.Now().Add(jobLimit)); err != nil {
			return nil, err
		}
		return wrap(newWire(conn)), nil
	})
	return &KeyValue{Name: program, worker: worker, proc: p}, err
}

// wire is a connection with buffers for its short parts; large values do not pass through them.
type wire struct {
	conn net.Conn
	in   *bufio.Reader
	head []byte
}

func newWire(conn net.Conn) wire { return wire{conn: conn, in: bufio.NewReaderSize(conn, 16<<10)} }

// send writes the parts of a request with one system call.
func (w *wire) send(parts ...[]byte) error {
	b := net.Buffers(parts)
	_, err := b.WriteTo(w.conn)
	return err
}

// line reads one line without its end.
func (w *wire) line() (string, error) {
	s, err := w.in.ReadString('\n')
	return strings.TrimRight(s, "\r\n"), err
}

// expect reads a line that has to be this one.
func (w *wire) expect(want string) error {
	got, err := w.line()
	if err == nil && got != want {
		err = fmt.Errorf("the server answered %q, not %q", got, want)
	}
	return err
}

// value reads one, and the end of line behind it.
func (w *wire) value(dst []byte) error {
	if _, err := io.ReadFull(w.in, dst); err != nil {
		return err
	}
	return w.expect("")
}

// RedisName names it in results.
const RedisName = "redis-server"

// Redis starts a redis-server that keeps everything in memory.
func (s *Scope) Redis(ctx context.Context) (*KeyValue, error) {
	return s.keyValue(ctx, RedisName, func(port int) []string {
		return []string{"--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--save", "", "--appendonly", "no", "--dir", s.env.Folder}
	}, func(w wire) drivers.KeyValue { return &redisConn{w} })
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

// MemcachedName names it in results.
const MemcachedName = "memcached"

// Memcached starts a memcached that takes objects of 1 MiB and has space for all of them.
func (s *Scope) Memcached(ctx context.Context) (*KeyValue, error) {
	return s.keyValue(ctx, MemcachedName, func(port int) []string {
		return []string{"-l", "127.0.0.1", "-p", strconv.Itoa(port), "-U", "0", "-m", "2048", "-I", "4m", "-u", "nobody"}
	}, func(w wire) drivers.KeyValue { return &memcachedConn{w} })
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

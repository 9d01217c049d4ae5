package doctor

import (
	"context"
	"crypto/x509"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/mooncake-go/mooncake/core/certs"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

const (
	// quicBuffer is what transport/quic asks for each socket, unless it is told otherwise, and
	// leastBuffer what quic-go takes for too little.
	quicBuffer  = 8 << 20
	leastBuffer = 7 << 20
	// expirySoon is how long before its end a certificate is a warning.
	expirySoon = 7 * 24 * time.Hour
	// leastMTU is the largest packet that discovery can settle on below Ethernet's.
	leastMTU = 1280
)

var quicID = plugin.ID{Kind: plugin.KindTransport, Name: "quic"}

// usesQUIC reports whether the node is to move data over QUIC, or is set up for it.
func (e *exam) usesQUIC() bool {
	for _, t := range e.cfg.Store.Transports {
		if t == "quic" {
			return true
		}
	}
	insecure, _ := e.quicSetting("insecure_dev").(bool)
	ca, _ := e.quicSetting("ca").(string)
	return e.cfg.Store.Protocol == "quic" || insecure || ca != ""
}

// asksQUIC is when the checks of quic are done.
func (e *exam) asksQUIC() bool { return e.node() && e.usesQUIC() }

func (e *exam) quicSetting(name string) any { return e.cfg.Plugins.Get(quicID).Config[name] }

// quicNetwork looks at what the kernel gives to UDP: the bounds of socket buffers, the
// offload of segmentation, and the size of packets.
func (e *exam) quicNetwork(context.Context) Result {
	want := int64(quicBuffer)
	if n, err := strconv.ParseInt(fmt.Sprint(e.quicSetting("socket_buffer")), 10, 64); err == nil && n > 0 {
		want = n
	}
	receive, known := e.number("proc/sys/net/core/rmem_max")
	send, known2 := e.number("proc/sys/net/core/wmem_max")
	if !known || !known2 {
		return warn("net.core.rmem_max and wmem_max cannot be read", "whether the sockets get the buffers they need is not known", "mount /proc; in a container look on the host")
	}
	r := ok("socket buffers up to %s for receiving and %s for sending, %s asked for", bytesOf(receive), bytesOf(send), bytesOf(want))
	r.Details = append(r.Details, e.segmentation())
	small := ""
	entries, _ := fs.ReadDir(e.Root, "sys/class/net") //nolint:errcheck // No folder, no interfaces.
	for _, d := range entries {
		mtu, known := e.number("sys/class/net/" + d.Name() + "/mtu")
		if !known || d.Name() == "lo" || e.text("sys/class/net/"+d.Name()+"/operstate") == "down" {
			continue
		}
		r.Details = append(r.Details, fmt.Sprintf("%s: MTU %d", d.Name(), mtu))
		if mtu < leastMTU {
			small = d.Name()
		}
	}
	switch {
	case min(receive, send) < min(want, leastBuffer):
		r.Status, r.Why = Warn, "the kernel cuts the socket buffers; packets are lost whenever the program does not read for a moment, and each loss slows a connection down"
		r.Do = fmt.Sprintf("run as root: sysctl -w net.core.rmem_max=%d net.core.wmem_max=%d (and put both into /etc/sysctl.d to keep them)", want, want)
	case small != "":
		r.Status, r.Why = Warn, fmt.Sprintf("%s carries packets below %d bytes only; QUIC does not work over it", small, leastMTU)
		r.Do = "raise its MTU: ip link set dev " + small + " mtu 1500"
	case strings.HasPrefix(r.Details[0], "no "):
		r.Status, r.Why = Warn, "without it each packet is a system call of its own, which costs about half of the throughput"
		r.Do = "use Linux 5.0 or later"
	}
	return r
}

// segmentation says whether the kernel takes many packets in one call (UDP GSO, from Linux
// 4.18 on; quic-go uses it from 5.0 on).
func (e *exam) segmentation() string {
	var major, minor int
	if _, err := fmt.Sscanf(e.text("proc/sys/kernel/osrelease"), "%d.%d", &major, &minor); err != nil {
		return "segmentation offload for UDP: not known"
	}
	if major < 5 {
		return "no segmentation offload for UDP (GSO) with this kernel"
	}
	return "segmentation offload for UDP (GSO): yes"
}

func bytesOf(n int64) string {
	if n >= 1<<20 {
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%d KiB", n>>10)
}

// quicCerts looks at the certificates that transport/quic is to use.
func (e *exam) quicCerts(context.Context) Result {
	insecure, _ := e.quicSetting("insecure_dev").(bool)
	ca, _ := e.quicSetting("ca").(string)
	switch protected := !e.cfg.Security.Plain(config.DoorData); {
	case protected && insecure:
		return fail("insecure_dev is set, and security.mode is "+e.cfg.Security.Mode, "transport/quic does not start", "remove insecure_dev")
	case protected && ca == "":
		return ok("transport/quic uses the certificates of section security")
	}
	if insecure {
		return warn("insecure_dev: certificates are made at start and nobody is asked for one", "whoever can forge an endpoint in the metadata service can pose as a node",
			"for anything but trials: 'mooncake certs init' and 'mooncake certs issue', then set ca, cert and key of plugins.transport.quic.config")
	}
	path := map[string]string{}
	for _, name := range []string{"ca", "cert", "key"} {
		path[name], _ = e.quicSetting(name).(string)
		if path[name] == "" {
			return fail("plugins.transport.quic.config."+name+" is not set", "transport/quic does not start without certificates",
				"make them with 'mooncake certs init DIR' and 'mooncake certs issue DIR HOST', then set ca, cert and key")
		}
	}
	roots, err := e.certificates(path["ca"])
	if err != nil {
		return fail(err.Error(), "transport/quic does not start without it", "name a PEM file of the authority in ca")
	}
	chain, err := e.certificates(path["cert"])
	if err != nil {
		return fail(err.Error(), "transport/quic does not start without it", "name a PEM file of this node's certificate in cert")
	}
	if !e.exists(strings.TrimPrefix(path["key"], "/")) {
		return fail(path["key"]+" is not there", "transport/quic does not start without the key", "name the file of the private key in key")
	}
	return e.judge(chain, roots, path)
}

func (e *exam) certificates(path string) ([]*x509.Certificate, error) {
	b, err := fs.ReadFile(e.Root, strings.TrimPrefix(path, "/"))
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", path, err)
	}
	return certs.Parse(b, path)
}

// judge checks a certificate as peers will.
func (e *exam) judge(chain, roots []*x509.Certificate, path map[string]string) Result {
	leaf, now := chain[0], e.now()
	info := certs.Describe(leaf)
	r := ok("%s, for %s, ends %s", path["cert"], strings.Join(info.Names, ", "), leaf.NotAfter.UTC().Format(time.DateOnly))
	pool, between := x509.NewCertPool(), x509.NewCertPool()
	for _, c := range roots {
		pool.AddCert(c)
	}
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	renew := "'mooncake certs renew " + path["cert"] + "', or a new one from its issuer; it is taken up without a restart"
	bad := func(s Status, why, do string) Result { r.Status, r.Why, r.Do = s, why, do; return r }
	if now.After(leaf.NotAfter) {
		return bad(Fail, "it has ended: peers refuse it, and transport/quic does not start", renew)
	}
	for _, u := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
		if _, err := leaf.Verify(x509.VerifyOptions{Roots: pool, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{u}}); err != nil {
			return bad(Fail, "peers will refuse it: "+err.Error(), "it must be signed by the authority in ca, for use as server and as client; 'mooncake certs issue' makes such")
		}
	}
	if left := leaf.NotAfter.Sub(now); left < expirySoon {
		return bad(Warn, fmt.Sprintf("it ends in %s; peers refuse it from then on", left.Truncate(time.Hour)), renew)
	}
	if host := e.cfg.Store.AdvertiseHost; host != "" && leaf.VerifyHostname(host) != nil && !e.namesPeers() {
		return bad(Warn, "it is not for "+host+", the address that peers dial, and peer_names is not set", "issue one for that name or address, or set peer_names on all nodes")
	}
	return r
}

// namesPeers reports whether peer_names is set.
func (e *exam) namesPeers() bool {
	names, _ := e.quicSetting("peer_names").([]any)
	return len(names) > 0
}

// now is the machine's time, that of this program where the machine does not tell.
func (e *exam) now() time.Time {
	if c, err := e.Clock(); err == nil && !c.Now.IsZero() {
		return c.Now
	}
	return time.Now()
}

package k8s

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// callTimeout bounds one call to the API server.
const callTimeout = 5 * time.Second

// serviceAccount is where a pod finds what it needs to call the API.
const serviceAccount = "/var/run/secrets/kubernetes.io/serviceaccount/"

// API is how the API server is reached.
type API struct {
	// URL is https://host:port.
	URL string
	// Token returns the bearer token, which changes from time to time.
	Token func() (string, error)
	// Roots are the authorities of the server's certificate, nil for those of the system.
	Roots *x509.CertPool
}

// InCluster is the API of the cluster in which this pod runs. UnavailableInCurrentMode elsewhere.
func InCluster() (API, error) {
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return API{}, errs.WithHint(errs.New(errs.UnavailableInCurrentMode, "leader election over Kubernetes", "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set"),
			"it works in a pod with a service account; elsewhere use etcd")
	}
	ca, err := os.ReadFile(serviceAccount + "ca.crt")
	if err != nil {
		return API{}, errs.Wrap(errs.UnavailableInCurrentMode, "leader election over Kubernetes", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return API{}, errs.New(errs.UnavailableInCurrentMode, "leader election over Kubernetes", "%sca.crt has no certificate", serviceAccount)
	}
	token := func() (string, error) {
		t, err := os.ReadFile(serviceAccount + "token")
		return strings.TrimSpace(string(t)), err
	}
	return API{URL: "https://" + net.JoinHostPort(host, port), Token: token, Roots: roots}, nil
}

// lease is a coordination.k8s.io/v1 Lease, as far as leader election uses it.
type lease struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   metadata `json:"metadata"`
	Spec       spec     `json:"spec"`
}

type metadata struct {
	Name            string            `json:"name"`
	Namespace       string            `json:"namespace"`
	ResourceVersion string            `json:"resourceVersion,omitempty"`
	Annotations     map[string]string `json:"annotations,omitempty"`
	Labels          map[string]string `json:"labels,omitempty"`
}

type spec struct {
	Holder      string     `json:"holderIdentity"`
	Seconds     int        `json:"leaseDurationSeconds"`
	Acquired    *microTime `json:"acquireTime,omitempty"`
	Renewed     *microTime `json:"renewTime,omitempty"`
	Transitions uint64     `json:"leaseTransitions"`
}

// microTime is a time as Kubernetes writes it, with microseconds.
type microTime struct{ time.Time }

const microLayout = "2006-01-02T15:04:05.000000Z07:00"

// MarshalJSON implements json.Marshaler.
func (t microTime) MarshalJSON() ([]byte, error) { return json.Marshal(t.UTC().Format(microLayout)) }

// UnmarshalJSON implements json.Unmarshaler.
func (t *microTime) UnmarshalJSON(b []byte) error {
	var text string
	err := json.Unmarshal(b, &text)
	if err == nil {
		t.Time, err = time.Parse(time.RFC3339, text)
	}
	return err
}

// Errors of calls that are answers rather than failures.
var (
	errNotFound = errors.New("there is no such lease")
	errConflict = errors.New("the lease has changed meanwhile")
)

// maxAnswer bounds an answer, in bytes.
const maxAnswer = 1 << 20

// caller makes calls to the API server.
type caller struct {
	api    API
	client *http.Client
}

func newCaller(api API) *caller {
	return &caller{api, &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: api.Roots, MinVersion: tls.VersionTLS12}, MaxIdleConnsPerHost: 2, IdleConnTimeout: time.Minute,
	}}}
}

// do makes one call within callTimeout. in and out are leases or nil.
func (c *caller) do(ctx context.Context, method, path string, in, out *lease) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := c.call(ctx, method, path, in, out)
	if err == nil || errors.Is(err, errNotFound) || errors.Is(err, errConflict) {
		return err
	}
	return errs.WithHint(errs.Wrap(errs.K8SLeaseOperationError, "leader election over Kubernetes: "+method+" "+path, err),
		"may the service account get, create and update leases of coordination.k8s.io in this namespace?")
}

func (c *caller) call(ctx context.Context, method, path string, in, out *lease) error {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.api.URL+path, body)
	if err != nil {
		return err
	}
	if c.api.Token != nil {
		token, err := c.api.Token()
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", "Bearer "+token)
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("Content-Type", "application/json")
	r, err := c.client.Do(req)
	if err != nil {
		return err
	}
	defer r.Body.Close() //nolint:errcheck // It was read.
	text, err := io.ReadAll(io.LimitReader(r.Body, maxAnswer))
	switch {
	case err != nil:
		return err
	case r.StatusCode == http.StatusNotFound:
		return errNotFound
	case r.StatusCode == http.StatusConflict:
		return errConflict
	case r.StatusCode/100 != 2:
		var status struct{ Message string }
		_ = json.Unmarshal(text, &status) // Without a message the code has to do.
		return fmt.Errorf("%s: %s", r.Status, status.Message)
	}
	return json.Unmarshal(text, out)
}

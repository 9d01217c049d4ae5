package s3

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/mooncake-go/mooncake/sdk/plugin"
)

const (
	minCapacity           = 4 << 20
	maxRequests           = 256
	maxPrefix             = 512
	minTimeout            = 100 * time.Millisecond
	maxTimeout            = 10 * time.Minute
	defaultCapacity       = 100 << 30
	defaultRequests       = 16
	defaultTimeout        = 30 * time.Second
	defaultRegion, folder = "us-east-1", "mooncake"
)

// Config is the plugin's part of the configuration, plugins.tier.s3.config.
type Config struct {
	// Endpoint is the URL of the server, such as https://s3.eu-central-1.amazonaws.com.
	Endpoint string `json:"endpoint"`
	Region   string `json:"region"`
	// Bucket exists. The objects are below Prefix, which no other process uses at the same time.
	Bucket string `json:"bucket"`
	Prefix string `json:"prefix"`
	// AccessKey, SecretKey and SessionToken are credentials. Without them, those of the environment
	// (AWS_ACCESS_KEY_ID and so on) or of the file ~/.aws/credentials are used.
	AccessKey    string `json:"access_key"`
	SecretKey    string `json:"secret_key"`
	SessionToken string `json:"session_token"`
	// CapacityBytes is what the records may take together.
	CapacityBytes uint64 `json:"capacity_bytes"`
	// Requests is how many operations are at the server at once.
	Requests int `json:"requests"`
	// Timeout ends operations without a deadline, and each other call.
	Timeout plugin.Duration `json:"timeout"`
}

func defaults() *Config {
	return &Config{
		Region: defaultRegion, Prefix: folder, CapacityBytes: defaultCapacity, Requests: defaultRequests, Timeout: plugin.Duration(defaultTimeout),
	}
}

var bucketName = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)

// Validate implements plugin.Config.
func (c *Config) Validate() error {
	u, err := url.Parse(c.Endpoint)
	switch {
	case c.Endpoint != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != ""):
		return fmt.Errorf("endpoint must be http://HOST[:PORT] or https://HOST[:PORT]")
	case c.Bucket != "" && !bucketName.MatchString(c.Bucket):
		return fmt.Errorf("bucket is %q, must be the name of a bucket: 3 to 63 lower-case letters, digits, dots and hyphens", c.Bucket)
	case c.Prefix == "" || len(c.Prefix) > maxPrefix || strings.Trim(c.Prefix, "/") != c.Prefix || strings.Contains(c.Prefix, "//"):
		return fmt.Errorf("prefix is %q, must be 1 to %d bytes, without / at its ends", c.Prefix, maxPrefix)
	case (c.AccessKey == "") != (c.SecretKey == ""):
		return fmt.Errorf("access_key and secret_key go together: set both or none")
	case c.SessionToken != "" && c.AccessKey == "":
		return fmt.Errorf("session_token needs access_key and secret_key")
	case c.CapacityBytes < minCapacity:
		return fmt.Errorf("capacity_bytes is %d, must be at least %d", c.CapacityBytes, minCapacity)
	case c.Requests < 1 || c.Requests > maxRequests:
		return fmt.Errorf("requests is %d, must be 1 to %d", c.Requests, maxRequests)
	case time.Duration(c.Timeout) < minTimeout || time.Duration(c.Timeout) > maxTimeout:
		return fmt.Errorf("timeout is %v, must be %v to %v", c.Timeout, minTimeout, maxTimeout)
	}
	return nil
}

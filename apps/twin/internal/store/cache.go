package store

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/bradfitz/gomemcache/memcache"
)

// Cache is one memcached server.
type Cache struct{ client *memcache.Client }

// NewCache looks the host name up, once and for all; it does not connect.
func NewCache(address string, timeout time.Duration) (*Cache, error) {
	if _, err := net.ResolveTCPAddr("tcp", address); err != nil {
		return nil, fmt.Errorf("resolve cache %q: %w", address, err)
	}
	client := memcache.New(address)
	client.Timeout = timeout
	client.MaxIdleConns = 64
	return &Cache{client: client}, nil
}

// GetMulti reads keys; those that are not cached are absent from the answer.
func (c *Cache) GetMulti(keys []string) (map[string][]byte, error) {
	if len(keys) == 0 {
		return map[string][]byte{}, nil
	}
	items, err := c.client.GetMulti(keys)
	if err != nil && !errors.Is(err, memcache.ErrCacheMiss) {
		return nil, fmt.Errorf("cache get: %w", err)
	}
	values := make(map[string][]byte, len(items))
	for key, item := range items {
		values[key] = item.Value
	}
	return values, nil
}

// Set writes one value.
func (c *Cache) Set(key string, value []byte) error {
	if err := c.client.Set(&memcache.Item{Key: key, Value: value}); err != nil {
		return fmt.Errorf("cache set: %w", err)
	}
	return nil
}

// Package consul plays a single development agent of Consul: the part of its HTTP API that services and operators
// use to register and find instances. State lives in memory only and has no health checks.
package consul

import (
	"cmp"
	"context"
	"slices"
	"sync"
)

// Instance is one registered service instance.
type Instance struct {
	ID          string
	Name        string
	Address     string
	Port        int
	Tags        []string
	Meta        map[string]string
	CreateIndex uint64
	ModifyIndex uint64
}

// Catalog holds the instances. Every change has a new index; readers wait for the next change of a name.
type Catalog struct {
	mu        sync.Mutex
	index     uint64
	byName    map[string]uint64 // index of a name's last change; names stay after their last instance went
	instances map[string]Instance
	changed   chan struct{} // closed and replaced at every change
}

// NewCatalog makes an empty catalog.
func NewCatalog() *Catalog {
	return &Catalog{index: 1, byName: map[string]uint64{}, instances: map[string]Instance{}, changed: make(chan struct{})}
}

// Register adds an instance or replaces the one with its ID.
func (c *Catalog) Register(instance Instance) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before, known := c.instances[instance.ID]
	if known && before.Name != instance.Name {
		c.touch(before.Name)
	}
	c.touch(instance.Name)
	instance.CreateIndex, instance.ModifyIndex = c.index, c.index
	if known {
		instance.CreateIndex = before.CreateIndex
	}
	c.instances[instance.ID] = instance
}

// Deregister takes an instance out and tells whether there was one.
func (c *Catalog) Deregister(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	instance, known := c.instances[id]
	if known {
		delete(c.instances, id)
		c.touch(instance.Name)
	}
	return known
}

// Instances lists those of one service ("" = all), oldest first, with the index of the last change.
func (c *Catalog) Instances(name string) ([]Instance, uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.list(name), c.indexOf(name)
}

// Wait is Instances, after the index has moved away from the given one or ctx has ended. An index of 0 or one that this
// catalog never gave, as a client holds after a restart, does not wait.
func (c *Catalog) Wait(ctx context.Context, name string, index uint64) ([]Instance, uint64) {
	for {
		c.mu.Lock()
		now, changed := c.indexOf(name), c.changed
		if index != now || index == 0 {
			instances := c.list(name)
			c.mu.Unlock()
			return instances, now
		}
		c.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return c.Instances(name)
		}
	}
}

func (c *Catalog) indexOf(name string) uint64 {
	if name == "" {
		return c.index
	}
	return max(c.byName[name], 1)
}

func (c *Catalog) list(name string) []Instance {
	found := []Instance{}
	for _, instance := range c.instances {
		if name == "" || instance.Name == name {
			found = append(found, instance)
		}
	}
	slices.SortFunc(found, func(a, b Instance) int { return cmp.Compare(a.CreateIndex, b.CreateIndex) })
	return found
}

func (c *Catalog) touch(name string) {
	c.index++
	c.byName[name] = c.index
	close(c.changed)
	c.changed = make(chan struct{})
}

// Command api plays every API service of an application; the name it is called by says which.
package main

import (
	"apps/internal/hotel"
	"apps/internal/service"
)

func main() { service.Main(hotel.Commands()) }

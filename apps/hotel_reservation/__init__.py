"""Hotel Reservation (DeathStarBench): see `topology.yaml` and, for the lite profile, `lite.md`."""

from apps.hotel_reservation.app import HotelReservation

__all__ = ["HotelReservation"]

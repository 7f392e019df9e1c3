"""Problems: one file per fault primitive. Pure; imports apps, injectors, oracles and sregym.api."""

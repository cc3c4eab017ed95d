"""The customised Django applications, one package each: ``settings``, ``urls``, ``seed`` and templates."""
